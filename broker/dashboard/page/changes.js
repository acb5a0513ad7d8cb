// Changes of policies, as a history and a preview show them.

import { hasDeadline } from './deadline.js';
import { el } from './dom.js';
import { big, count, name, tokens } from './format.js';
import { badge, note, weaker } from './parts.js';
import { differences, fields } from './policyfields.js';

// shownChanges is how many changes are listed at most.
const shownChanges = 200;

// changeList shows changes, each with the fields that differ.
export const changeList = (changes) => [
  el('ul.changes', null, changes.slice(0, shownChanges).map(change)),
  changes.length > shownChanges && note(`and ${tokens(BigInt(changes.length - shownChanges))} more`),
];

function change(c) {
  const elsewhere = c.operation && c.subject !== `policy ${c.operation}`;
  return el('li', null,
    el('b', null, name(c.subject)), elsewhere && [', ', name(c.operation)], ' ', fate(c),
    hasDeadline(c.after) && !hasDeadline(c.before) && weaker(c.after),
    lines(c).map(([term, ...sides]) => el('div.diff', null, term && el('span.term', null, term, ' '), sides)),
    big(c.liveBudgets) > 0n && el('div.diff', null, count(c.liveBudgets, 'live budget'), big(c.recalledTokens) > 0n && `, ${count(c.recalledTokens, 'token')} recalled`));
}

// isPlan says that a change is about whether a plan is there.
const isPlan = (c) => !c.operation && (c.subject ?? '').startsWith('plan ');

function fate(c) {
  if ((!c.before && c.after) || (isPlan(c) && !c.beforeText)) return badge('new', 'good');
  if ((c.before && !c.after) || (isPlan(c) && !c.afterText)) return badge('removed', 'warn');
  return null;
}

// lines are the fields that change: [name, nodes].
function lines(c) {
  if (c.before && c.after) return differences(c.before, c.after).map(([field, was, is]) => [field, ...arrow(was, is)]);
  if (c.before || c.after) {
    const all = fields(c.before ?? c.after).slice(1); // the subject has the operation
    return [['', el(c.after ? 'ins' : 'del', null, all.map(([field, value], i) => [i > 0 && ', ', `${field} `, name(value)]))]];
  }
  return isPlan(c) ? [] : [['', ...arrow(c.beforeText, c.afterText)]];
}

const side = (text) => (text ? name(text) : 'none');

const arrow = (was, is) => [el('del', null, side(was)), ' → ', el('ins', null, side(is))];
