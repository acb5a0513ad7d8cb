// What several views show: bars, tables, pages, grants.

import { canLapse, deadline, hasDeadline, lapses, weakness } from './deadline.js';
import { el } from './dom.js';
import { age, big, capacity, count, holderName, looseness, name, share, tokens, word } from './format.js';
import { recall, remember } from './memory.js';

// link is the address of a view: the hash names it, with its parameters.
export function link(view, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== undefined && v !== '')).toString();
  return `#/${view}${query ? `?${query}` : ''}`;
}

// Colours of regions. Each keeps its own, by its place among the regions that the
// broker told of, in order; this browser remembers them.
const hues = 10;
const seen = new Map([recall('regions', [])].flat().map((region, i) => [region, i]));

export function meetRegions(regions) {
  const before = seen.size;
  for (const region of [...regions].sort()) if (region && !seen.has(region)) seen.set(region, seen.size);
  if (seen.size > before) remember('regions', [...seen.keys()].slice(0, 200));
}

const hue = (region) => (seen.has(region) ? `region${seen.get(region) % hues}` : 'held');

// swatch is a region's name with its colour.
export const swatch = (region) => el('span.region', null, el(`span.dot.${hue(region)}`, { 'aria-hidden': 'true' }), region);

// heldTokens is what live holders have out.
export const heldTokens = (budget) => big(budget.reservedTokens) - big(budget.orphanedTokens);

// segments are the parts of a budget's bar, in order.
function segments(budget) {
  const regions = (budget.regions ?? []).filter((r) => big(r.liveTokens) > 0n);
  const held = regions.length
    ? regions.map((r) => ({ kind: hue(r.region), amount: big(r.liveTokens), label: r.region, words: `held by ${r.region}` }))
    : [{ kind: 'held', amount: heldTokens(budget), words: 'held' }];
  return [
    { kind: 'available', amount: big(budget.availableTokens), words: 'available' },
    ...held,
    { kind: 'unknown', amount: big(budget.orphanedTokens), words: 'unknown' },
    { kind: 'recovering', amount: big(budget.recoveringTokens), words: 'recovering' },
  ].filter((s) => s.amount > 0n);
}

// bar draws where a budget's tokens are. What is above the cap, after it was
// lowered, makes the bar longer than the cap, which is then marked.
export function bar(budget, size = '') {
  const cap = capacity(budget.policy);
  const parts = segments(budget);
  const sum = parts.reduce((all, part) => all + part.amount, 0n);
  const whole = sum > cap ? sum : cap;
  const debt = big(budget.debtTokens);
  const words = [`cap ${tokens(cap)}`, ...parts.map((p) => `${p.words} ${tokens(p.amount)}`), debt > 0n && `debt ${tokens(debt)}`].filter(Boolean).join(', ');
  return el(`div.bar${size}`, { role: 'img', 'aria-label': words, title: words },
    parts.map((p) => el(`span.part.${p.kind}`, { style: { width: `${share(p.amount, whole)}%` } }, p.label && share(p.amount, whole) > 9 ? p.label : null)),
    sum > cap && el('span.capmark', { style: { left: `${share(cap, whole)}%` } }),
    debt > 0n && el('span.debt', { style: { width: `${Math.max(1, Math.min(100, share(debt, cap > 0n ? cap : debt)))}%` } }));
}

// legend explains the bars.
export function legend(regions) {
  const entry = (kind, text) => el('li', null, el(`span.dot.${kind}`, { 'aria-hidden': 'true' }), text);
  return el('ul.legend', { 'aria-label': 'Colours of the bars' },
    entry('available', 'available'),
    [...regions].sort().map((region) => entry(hue(region), `held by ${region}`)),
    entry('unknown', 'unknown: not accounted for'), entry('recovering', 'recovering'), entry('debt', 'debt'));
}

// unusable tells which records could not be read, and what is missing because of that.
export const unusable = (answer, words = missing) => big(answer.unusableCount) > 0n && el('div.verdict.warn', { 'data-key': 'unusable' },
  el('p', null, `${words(answer.unusableCount)} See `, el('code', null, 'tokenlease verify'), '.'),
  el('ul', null, (answer.unusable ?? []).map((fault) => el('li', null, name(fault)))),
  big(answer.unusableCount) > BigInt((answer.unusable ?? []).length) && note(`and ${tokens(big(answer.unusableCount) - BigInt((answer.unusable ?? []).length))} more`));

const missing = (n) => `${count(n, 'record')} cannot be read: figures here are too low by what ${big(n) === 1n ? 'it holds, which stays reserved until it is' : 'they hold, which stays reserved until they are'} mended.`;

// badge is a word that stands out.
export const badge = (text, kind = '', title) => el(`span.badge${kind && `.${kind}`}`, { title }, text);

// notStrict marks a budget that is no cap.
export function notStrict(policy, flag) {
  const why = looseness(policy, flag);
  return why && badge(`not strict: ${why}`, 'warn', 'More may be admitted than the rule says.');
}

// weaker marks a budget of which credit comes back without proof.
export const weaker = (policy) => hasDeadline(policy) && badge(deadline(policy), 'warn', weakness);

// lapseColumn tells which grants end without proof, where some do.
export const lapseColumn = (grants) => grants.some(canLapse) && { head: 'Lapses', wide: true, cell: (g) => (canLapse(g) ? el('span.lapse', null, badge(lapses(g), 'warn', weakness)) : el('span.none', null, lapses(g))) };

// table has a caption and columns: {head, cell(row)}, and what they are: number, wide
// (wraps), long (takes a line on narrow screens), tight. There each row is a block,
// with the heads as labels.
export function table(caption, columns, rows, { key, empty = 'None.', hideCaption = false } = {}) {
  if (rows.length === 0) return el('div.empty', { 'data-key': `empty ${caption}` }, el('h2', null, caption), el('p', null, empty));
  const used = columns.filter(Boolean);
  const kind = (c) => ['number', 'wide', 'tight', 'long'].filter((k) => c[k]).map((k) => `.${k}`).join('');
  return el('div.scroll', { 'data-key': `table ${caption}` },
    el('table', { role: 'table' },
      el(hideCaption ? 'caption.hidden' : 'caption', null, caption),
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, used.map((c) => el(`th${kind(c)}`, { scope: 'col', role: 'columnheader' }, c.head)))),
      el('tbody', { role: 'rowgroup' }, rows.map((row, i) => el('tr', { role: 'row', 'data-key': key ? `row ${key(row, i)}` : undefined },
        used.map((c) => cell(c, kind(c), c.cell(row))))))));
}

// cell is one cell. A zero among numbers is quiet, so that what is not stands out.
const cell = (column, kind, value) => el(`td${kind}${column.number && value === '0' ? '.zero' : ''}`, { role: 'cell', 'data-label': column.head }, el('div.value', null, value));

// pager leads from page to page. Tokens of earlier pages are remembered while the
// page is open; a link that names a later page knows the first one only.
const before = new Map();

export function pager(view, params, next, shown) {
  const here = params.page ?? '';
  if (next) before.set(next, here);
  const to = (page) => link(view, { ...params, page });
  const step = (text, page, key) => (page === undefined ? el('span.step.off', { 'aria-disabled': 'true' }, text) : el('a.step', { href: to(page), 'data-step': key }, text));
  if (!here && !next) return shown && el('p.pager', { 'data-key': 'pager' }, shown);
  return el('nav.pager', { 'aria-label': 'Pages', 'data-key': 'pager' },
    step('First page', here ? '' : undefined, 'first'),
    step('Previous', here && before.has(here) ? before.get(here) : undefined, 'previous'),
    step('Next', next || undefined, 'next'),
    el('span', null, shown, next ? ', and more' : ''));
}

// slice is one page of rows that came all at once.
export function slice(view, params, rows, size = 100) {
  const from = Math.max(0, Math.min(Number.parseInt(params.page ?? '0', 10) || 0, Math.max(0, rows.length - 1)));
  const next = from + size < rows.length ? String(from + size) : '';
  if (from > 0 && !before.has(String(from))) before.set(String(from), from > size ? String(from - size) : '');
  const shown = rows.slice(from, from + size);
  return { shown, pager: rows.length > size && pager(view, params, next, `${tokens(BigInt(from + 1))}–${tokens(BigInt(from + shown.length))} of ${tokens(BigInt(rows.length))}`) };
}

// facts are names with values.
export const facts = (...pairs) => el('dl.facts', null, pairs.filter(Boolean).map(([term, value, kind]) =>
  el(`div${kind ? `.${kind}` : ''}`, null, el('dt', null, term), el('dd', null, value))));

// section is a part of a view with a heading of its own.
export const section = (title, ...children) => el('section', { 'data-key': `section ${title}`, 'aria-label': title }, el('h2', null, title), children);

// note is a sentence beside the data.
export const note = (...children) => el('p.note', null, children);

// button acts; why says why it cannot.
export const button = (text, onclick, { kind = '', why, label } = {}) => el(`button${kind && `.${kind}`}`, {
  type: 'button', onclick: why ? null : onclick, disabled: Boolean(why), title: why, 'aria-label': label,
}, text);

// budgetLink leads to a budget: its account over its operation.
export const budgetLink = (key) => el('a.budget', { href: link('budget', { account: key?.account ?? '', operation: key?.operation ?? '' }) },
  name(key?.account), el('span.of', null, name(key?.operation)));

// holderLink leads to a holder.
export const holderLink = (h) => el('a', { href: link('holder', { region: h?.region, instance: h?.instance }) }, holderName(h));

// stateBadge is what is known of a grant.
export function stateBadge(grant) {
  const state = word(grant.state, 'GRANT_STATE_');
  return [badge(state, state === 'orphaned' ? 'alarm' : 'good', state === 'orphaned' ? 'The epoch that holds it is gone and has not accounted for it: unknown, and reserved.' : undefined),
    grant.kept && badge('kept', 'warn', 'Its holder has ended it; work may still use the slots.')];
}

// grantsTable lists grants.
export function grantsTable(caption, grants, ctx, { budget = true, holder = true, empty } = {}) {
  return table(caption, [
    { head: 'Grant', cell: (g) => el('a.id', { href: link('grant', { id: g.grantId }) }, g.grantId) },
    budget && { head: 'Budget', wide: true, cell: (g) => budgetLink(g.budget) },
    holder && { head: 'Holder', long: true, cell: (g) => [swatch(g.holder?.region ?? ''), '/', el('a', { href: link('holder', g.holder) }, g.holder?.instance ?? '')] },
    { head: 'Epoch', number: true, cell: (g) => tokens(g.epoch) },
    { head: 'State', cell: stateBadge },
    { head: 'Outstanding', number: true, cell: (g) => tokens(g.outstandingTokens) },
    { head: 'Issued', number: true, cell: (g) => tokens(g.issuedTokens) },
    { head: 'Spent', number: true, cell: (g) => tokens(g.spentTokens) },
    { head: 'Returned', number: true, cell: (g) => tokens(g.returnedTokens) },
    { head: 'Opened', cell: (g) => age(g.openedUnixMs, 'unknown') },
    lapseColumn(grants),
    ctx.may('ResolveGrant') && { head: 'Act', tight: true, cell: (g) => button('Resolve…', () => ctx.act.resolve(g), { label: `Resolve grant ${g.grantId}…` }) },
  ], grants, { key: (g) => g.grantId, empty });
}

// regionsOf are the regions of some budgets.
export const regionsOf = (budgets) => new Set(budgets.flatMap((b) => (b.regions ?? []).map((r) => r.region)));

// counted says how many of something a page has.
export const counted = (rows, one, many) => rows.length > 0 && `${count(rows.length, one, many)} on this page`;
