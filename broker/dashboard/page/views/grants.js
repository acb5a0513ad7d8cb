// Grants: all of them with filters, and the story of one.

import { call, optional } from '../api.js';
import { canLapse, lapses, weakness } from '../deadline.js';
import { el } from '../dom.js';
import { age, big, name, tokens, visible } from '../format.js';
import { badge, budgetLink, button, counted, facts, grantsTable, holderLink, note, pager, section, stateBadge, table, unusable } from '../parts.js';
import { choice, search } from './controls.js';

const minute = 60e3;
const ages = [['', 'any age'], [String(minute), 'over 1 min'], [String(60 * minute), 'over 1 h'], [String(1440 * minute), 'over 1 d']];

export const grants = {
  title: () => 'Grants',
  every: 2000, // a filter may read many

  controls: (params, go) => [
    choice('State', [['', 'all'], ['LIVE', 'live'], ['ORPHANED', 'orphaned']], params.state, (state) => go({ state, page: '' })),
    choice('Opened', ages, params.age, (opened) => go({ age: opened, page: '' })),
    search('Region', params.region, (region) => go({ region, page: '' })),
    search('Instance', params.instance, (instance) => go({ instance, page: '' })),
    search('ID begins with', params.prefix, (prefix) => go({ prefix, page: '' })),
  ],

  load: (params, signal) => call('ListGrants', {
    region: params.region, instance: params.instance, state: params.state ? `GRANT_STATE_${params.state}` : undefined,
    minAgeMs: params.age, grantIdPrefix: params.prefix, pageToken: params.page,
  }, signal),

  render(page, params, ctx) {
    const rows = page.grants ?? [];
    return [unusable(page), grantsTable('Grants', rows, ctx, { empty: params.page ? 'There are no more.' : 'No grant is unresolved that fits.' }), pager('grants', params, page.nextPageToken, counted(rows, 'grant'))];
  },
};

export const grant = {
  nav: 'grants',
  title: ({ id }) => ['Grant ', el('span.id', null, visible(id))],
  heading: ({ id }) => `Grant ${visible(id)}`,

  async load({ id }, signal) {
    const story = await optional(call('ExplainGrant', { grantId: id }, signal));
    return story ?? call('ShowGrant', { grantId: id }, signal);
  },

  render(story, _, ctx) {
    const g = story.grant;
    return [
      (story.advice ?? []).map((words) => el('p.advice', null, visible(words))),
      facts(
        ['Budget', budgetLink(g.budget)],
        ['Holder', holderLink(g.holder)],
        ['Epoch', tokens(g.epoch)],
        ['State', story.ended ? 'ended' : stateBadge(g)],
        ['Outstanding', tokens(g.outstandingTokens)],
        ['Issued', tokens(g.issuedTokens)],
        ['Spent', tokens(g.spentTokens)],
        ['Returned', tokens(g.returnedTokens)],
        big(g.owedTokens) > 0n && ['Owed', tokens(g.owedTokens), 'alarm'],
        ['Opened', age(g.openedUnixMs, 'unknown')],
        ['Lapses', canLapse(g) ? badge(lapses(g), 'warn') : lapses(g)],
        ['Policy version', big(g.policyVersion) > 0n ? tokens(g.policyVersion) : 'not reported'],
      ),
      canLapse(g) && note(weakness),
      !story.ended && ctx.may('ResolveGrant') && el('p', null, button('Resolve…', () => ctx.act.resolve(g))),
      story.events ? events(story) : section('Events', note('This broker does not tell what happened to a grant.')),
    ];
  },
};

const events = (story) => table('What happened', [
  { head: 'When', cell: (e) => age(e.unixMs) },
  { head: 'What', cell: (e) => [e.what, Number(e.count ?? 1) > 1 && ` (${tokens(e.count)} times)`] },
  { head: 'Issued', number: true, cell: (e) => tokens(e.issuedTokens) },
  { head: 'Spent', number: true, cell: (e) => tokens(e.spentTokens) },
  { head: 'Returned', number: true, cell: (e) => tokens(e.returnedTokens) },
  { head: 'Detail', wide: true, cell: (e) => name(e.detail) },
], story.events, { empty: 'Nothing is known of it before now.' });

