// Budgets: where every token is, and what is busiest.

import { call } from '../api.js';
import { el } from '../dom.js';
import { big, capacity, count, rule, tokens } from '../format.js';
import { badge, bar, budgetLink, counted, heldTokens, legend, meetRegions, note, notStrict, pager, regionsOf, table, unusable, weaker } from '../parts.js';
import { choice, search } from './controls.js';

const sizes = ['50', '100', '500'];
const orders = [['', 'all, in order'], ['busiest', 'busiest'], ['starved', 'most starved']];

export const budgets = {
  title: () => 'Budgets',

  controls: (params, go) => [
    search('Search account or operation', params.search, (text) => go({ search: text, page: '', order: '' })),
    choice('Show', orders, params.order, (order) => go({ order, search: '', page: '' })),
    choice('On a page', sizes.map((s) => [s, s]), params.size ?? '100', (size) => go({ size, page: '' })),
  ],

  async load(params, signal) {
    if (params.order) return { top: await call('TopBudgets', { order: `BUDGET_ORDER_${params.order.toUpperCase()}`, limit: 100 }, signal) };
    const page = await call('ListBudgets', { search: params.search, pageSize: Number(params.size ?? 100), pageToken: params.page }, signal);
    meetRegions(regionsOf(page.budgets ?? []));
    return { page };
  },

  render: ({ page, top }, params) => (top ? ranking(top, params.order) : listing(page, params)),
};

function listing(page, params) {
  const rows = page.budgets ?? [];
  return [
    unusable(page),
    rows.length > 0 && legend(regionsOf(rows)),
    table('Budgets', [
      { head: 'Account, operation', wide: true, cell: (b) => [budgetLink(b.key), notStrict(b.policy, b.notStrict), weaker(b.policy), b.policy?.disabled && badge('disabled', 'alarm', b.policy.disabledBecause)] },
      { head: 'Where it is', long: true, cell: (b) => bar(b) },
      { head: 'Available', number: true, cell: (b) => tokens(b.availableTokens) },
      { head: 'Held', number: true, cell: (b) => tokens(heldTokens(b)) },
      { head: 'Unknown', number: true, cell: (b) => alarmed(b.orphanedTokens) },
      { head: 'Recovering', number: true, cell: (b) => tokens(b.recoveringTokens) },
      { head: 'Debt', number: true, cell: (b) => alarmed(b.debtTokens) },
      { head: 'Cap', number: true, cell: (b) => el('span', { title: rule(b.policy) }, tokens(capacity(b.policy))) },
    ], rows, {
      key: (b) => JSON.stringify([b.key?.account, b.key?.operation]), hideCaption: true,
      empty: params.page ? 'There are no more.' : params.search ? `No budget has “${params.search}” in its account or operation.` : 'No budget has a record: each is full, and nothing of it is out.',
    }),
    pager('budgets', params, page.nextPageToken, counted(rows, 'budget')),
  ];
}

// alarmed is a number that should be 0.
const alarmed = (amount) => (big(amount) > 0n ? el('b.alarming', null, tokens(amount)) : '0');

function ranking(top, order) {
  const rows = top.budgets ?? [];
  return [
    note(order === 'busiest' ? 'By what is spent a second, as reported of late.' : 'By what holders want and cannot be given.',
      (top.shardsMissing ?? []).length > 0 && el('b.alarming', null, ` Without ${count(top.shardsMissing.length, 'shard')} whose owner did not answer.`)),
    table(order === 'busiest' ? 'Busiest budgets' : 'Most starved budgets', [
      { head: 'Account, operation', wide: true, cell: (b) => [budgetLink(b.key), weaker(b)] },
      { head: 'Where it is', long: true, cell: (b) => bar({ availableTokens: b.availableTokens, reservedTokens: b.reservedTokens, policy: { tokenBucket: { capacityTokens: b.capacityTokens } } }) },
      { head: 'Spent a second', number: true, cell: (b) => new Intl.NumberFormat('en', { maximumFractionDigits: 1 }).format(b.spentTokensPerSecond ?? 0) },
      { head: 'Wanted', number: true, cell: (b) => tokens(b.wantedTokens) },
      { head: 'Waiting holders', number: true, cell: (b) => tokens(b.waitingHolders) },
      { head: 'Available', number: true, cell: (b) => tokens(b.availableTokens) },
      { head: 'Out', number: true, cell: (b) => tokens(b.reservedTokens) },
      { head: 'Cap', number: true, cell: (b) => tokens(b.capacityTokens) },
    ], rows, { key: (b) => JSON.stringify([b.key?.account, b.key?.operation]), empty: 'No budget is in use now.' }),
  ];
}

