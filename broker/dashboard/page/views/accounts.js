// Accounts: those that have a plan or policies of their own, and what rules the
// operations of one.

import { call } from '../api.js';
import { deadline, hasDeadline } from '../deadline.js';
import { el } from '../dom.js';
import { age, count, name, origin, tokens, visible } from '../format.js';
import { inForce, planOf } from '../inforce.js';
import { badge, counted, facts, link, note, pager, slice, table } from '../parts.js';
import { terms } from '../policytable.js';
import { search } from './controls.js';

const accountLink = (account) => el('a', { href: link('account', { name: account }) }, name(account));

export const accounts = {
  title: () => 'Accounts',
  every: 3000,

  controls: (params, go) => [
    search('Name begins with', params.prefix, (prefix) => go({ prefix, page: '' })),
    search('Plan', params.plan, (plan) => go({ plan, page: '' })),
  ],

  load: (params, signal) => call('ListAccounts', { accountPrefix: params.prefix, plan: params.plan, pageSize: 100, pageToken: params.page }, signal),

  render(page, params) {
    const rows = page.accounts ?? [];
    return [
      note('Those that have a plan or policies of their own. Every other account has budgets too, by the default plan and the policies for everybody.',
        params.prefix && [' See what rules ', accountLink(params.prefix), '.']),
      table('Accounts', [
        { head: 'Account', wide: true, cell: (a) => accountLink(a.account) },
        { head: 'Plan', cell: (a) => (a.plan ? el('a', { href: link('accounts', { plan: a.plan }) }, visible(a.plan)) : el('span.none', null, 'the default plan')) },
        { head: 'Policies of its own', number: true, cell: (a) => tokens(BigInt((a.policies ?? []).length)) },
        { head: 'Reclaim', wide: true, cell: (a) => { const of = (a.policies ?? []).filter(hasDeadline); return of.length > 0 && badge(of.length === 1 ? deadline(of[0]) : `weaker than proof: ${count(of.length, 'policy', 'policies')} with a deadline`, 'warn'); } },
        { head: 'Version', number: true, cell: (a) => tokens(a.version) },
        { head: 'Updated', cell: (a) => age(a.updatedUnixMs, 'unknown') },
      ], rows, { key: (a) => a.account, hideCaption: true, empty: params.page ? 'There are no more.' : params.prefix || params.plan ? 'No account with something of its own fits.' : 'No account has a plan or policies of its own.' }),
      pager('accounts', params, page.nextPageToken, counted(rows, 'account')),
    ];
  },
};

export const account = {
  nav: 'accounts',
  title: (params) => ['Account ', name(params.name)],
  heading: (params) => `Account ${visible(params.name)}`,
  every: 3000,

  async load(params, signal) {
    const [listed, answer] = await Promise.all([call('ListPolicies', {}, signal), call('ListAccounts', { account: params.name }, signal)]);
    return { listed, own: (answer.accounts ?? []).find((a) => a.account === params.name) };
  },

  render({ listed, own }, params) {
    const plan = planOf(listed, own);
    const { shown, pager: pages } = slice('account', params, inForce(listed, own));
    return [
      facts(
        ['Plan', plan ? [visible(plan), !own?.plan && el('span.percent', null, ' by default')] : 'none', 'figure'],
        ['Policies of its own', tokens(BigInt((own?.policies ?? []).length)), 'figure'],
        ['Version', own ? tokens(own.version) : 'none', 'figure'],
        ['Updated', own ? age(own.updatedUnixMs, 'unknown') : 'never', 'figure'],
      ),
      !own && note('It has nothing of its own.'),
      note(el('a', { href: link('budgets', { search: params.name }) }, 'Its budgets'), ' and those of accounts with such a name.'),
      table('What rules its operations', [
        { head: 'Operation', wide: true, cell: (e) => el('a', { href: link('budget', { account: params.name, operation: e.operation }) }, name(e.operation)) },
        { head: 'From', cell: (e) => (e.policy ? origin(e.policy) : el('span.none', null, 'none')) },
        { head: 'State', long: true, cell: condition },
        ...terms.map((column) => ({ ...column, cell: (e) => (e.policy ? column.cell(e.policy) : '') })),
      ], shown, { key: (e) => e.operation, empty: 'No policy is in force for it: everything is denied.' }),
      pages,
    ];
  },
};

// condition says what becomes of the operation's checks.
function condition({ policy, disabled }) {
  if (disabled) return badge('disabled', 'alarm', visible(disabled.because));
  if (!policy) return badge('denied', 'warn', 'No policy rules it, so everything is denied.');
  if (policy.disabled) return badge('disabled', 'alarm', visible(policy.disabledBecause));
  return policy.shadow ? badge('shadow', 'warn', 'Decides and counts, and admits whatever comes out.') : badge('on', 'good');
}
