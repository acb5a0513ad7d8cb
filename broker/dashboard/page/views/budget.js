// One budget: its numbers, its policy, who holds it, and its last minutes.

import { call } from '../api.js';
import { chart, sample } from '../chart.js';
import { hasDeadline, reclaim, staleness, weakness } from '../deadline.js';
import { el } from '../dom.js';
import { age, big, capacity, exact, lengthNs, local, name, origin, rule, share, strictness, tokens, visible, word } from '../format.js';
import { badge, bar, facts, grantsTable, heldTokens, legend, link, meetRegions, note, notStrict, regionsOf, section, slice, swatch, table, unusable, weaker } from '../parts.js';

export const budget = {
  nav: 'budgets',
  title: ({ account, operation }) => [name(account), el('span.of', null, name(operation))],
  heading: ({ account, operation }) => `${visible(account)} ${visible(operation)}`,

  async load({ account, operation }, signal) {
    try {
      const answer = await call('ShowBudget', { key: { account, operation } }, signal);
      meetRegions(regionsOf([answer.budget]));
      return { answer, history: sample(answer.budget) };
    } catch (error) {
      if (error.code === 'not_found') return { missing: error.message };
      throw error;
    }
  },

  render({ answer, history, missing }, params, ctx) {
    if (missing) return [el('div.empty', null, el('h2', null, 'No record'), el('p', null, 'The budget is full, and nothing of it is out, or it was never asked for.'), note(visible(missing)))];
    const b = answer.budget;
    const grants = slice('budget', params, b.grants ?? [], 50);
    return [
      unusable(answer),
      el('p.badges', null, notStrict(b.policy, b.notStrict), weaker(b.policy), b.policy?.disabled && badge('disabled', 'alarm', visible(b.policy.disabledBecause))),
      hasDeadline(b.policy) && el('p.advice', null, weakness),
      bar(b, '.large'),
      legend(regionsOf([b])),
      numbers(b),
      section('Last minutes', chart(b, history)),
      el('div.columns', { 'data-key': 'columns' }, regions(b), policy(b.policy, b.notStrict, b.key?.account)),
      grantsTable('Grants', grants.shown, ctx, { budget: false, empty: 'Nothing of it is out.' }),
      grants.pager,
    ];
  },
};

function numbers(b) {
  const cap = capacity(b.policy);
  const of = (amount) => [tokens(amount), cap > 0n && el('span.percent', null, ` ${Math.round(share(big(amount), cap))} %`)];
  return facts(
    ['Available', of(b.availableTokens), 'figure'],
    ['Held by regions', of(heldTokens(b)), 'figure'],
    ['Unknown', of(b.orphanedTokens), big(b.orphanedTokens) > 0n ? 'figure.alarm' : 'figure'],
    ['Recovering', of(b.recoveringTokens), 'figure'],
    ['Debt', of(b.debtTokens), big(b.debtTokens) > 0n ? 'figure.alarm' : 'figure'],
    ['Cap', tokens(cap), 'figure'],
    ['Full in', b.hasFullIn ? el('span', { title: 'If what is out comes back now and nothing more is spent.' }, big(b.fullInNs) === 0n ? 'full' : lengthNs(b.fullInNs)) : el('span.none', { title: 'Waiting does not fill it: see its rule, and what is unknown.' }, 'not by waiting'), 'figure'],
    ['Shard', tokens(BigInt(b.shard ?? 0)), 'figure'],
  );
}

function regions(b) {
  return el('div', null, table('By region', [
    { head: 'Region', cell: (r) => swatch(r.region) },
    { head: 'Grants', number: true, cell: (r) => tokens(r.grants) },
    { head: 'Held', number: true, cell: (r) => tokens(r.liveTokens) },
    { head: 'Unknown', number: true, cell: (r) => (big(r.orphanedTokens) > 0n ? el('b.alarming', null, tokens(r.orphanedTokens)) : '0') },
  ], b.regions ?? [], { key: (r) => r.region, empty: 'No region holds any of it.' }));
}

// policy tells a policy's fields, by the names that a policy file has.
function policy(p, flag, account) {
  if (!p) return section('Policy', note('None is in force: everything is denied.'));
  const strict = strictness(p, flag);
  return section('Policy', facts(
    ['Rule', rule(p)],
    ['For', p.plan ? el('a', { href: link('policies') }, origin(p)) : origin(p)],
    ['Account', el('a', { href: link('account', { name: account }) }, 'what rules its operations')],
    ['Version', [tokens(p.version), big(p.updatedUnixMs) > 0n && [', ', age(p.updatedUnixMs)]]],
    ['Strict', strict, strict !== 'yes' && 'alarm'],
    ['Cost', [tokens(p.defaultCostTokens), big(p.maxCostTokens) > 0n && `, at most ${tokens(p.maxCostTokens)}`, p.allowZeroCost && ', 0 allowed']],
    ['Max share', `${p.maxSharePercent || 100} % for one limiter`],
    ['Max staleness', staleness(p)],
    ['Reclaim', reclaim(p), hasDeadline(p) && 'alarm'],
    ['Unavailable', word(p.onUnavailable, 'UNAVAILABILITY_') || 'reject'],
    p.local && ['Local allowance', local(p.local)],
    big(p.holdNs) > 0n && ['Hold', exact(p.holdNs)],
    p.disabled && ['Disabled', visible(p.disabledBecause), 'alarm'],
  ));
}

