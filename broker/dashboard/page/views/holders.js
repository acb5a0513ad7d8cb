// Holders: the limiters that ever registered, and what each has.

import { call } from '../api.js';
import { el } from '../dom.js';
import { age, big, count, holderName, lengthNs, now, tokens, visible } from '../format.js';
import { badge, button, facts, grantsTable, link, meetRegions, slice, swatch, table, unusable } from '../parts.js';
import { search } from './controls.js';

// quiet is how long a holder may say nothing before the page points at it.
const quiet = 60e3;

// unheard says that a holder was not heard for a while, and silent that it has
// something out as well.
const unheard = (h) => Number(h.lastHeardUnixMs ?? 0) < now() - quiet;
const silent = (h) => unheard(h) && big(h.liveGrants) > 0n;

// badges say what is the matter with a holder.
const badges = (h) => [
  big(h.epoch) === 0n ? badge('unknown', 'alarm', 'Its registration cannot be read.')
    : h.fenced ? badge('fenced', 'warn', 'Of before a declared restore: it has not started again since.')
      : h.retired ? badge('retired', '', 'An operator has attested that this epoch is gone.')
        : silent(h) ? badge('silent', 'warn', 'It was not heard for a minute. Silence proves nothing: what it has stays reserved.')
          : unheard(h) ? badge('idle', '', 'It was not heard for a minute, and its epoch has nothing out.') : badge('live', 'good'),
  big(h.orphanedGrants) > 0n && badge('orphaned credit', 'alarm', 'Earlier epochs have not accounted for what they had.'),
  big(h.grantsBehind) > 0n && badge('behind', 'warn', `${count(h.grantsBehind, 'grant')} under an older policy than is in force`),
];

const retireButton = (h, ctx) => ctx.may('RetireHolder') && button('Retire…', () => ctx.act.retire(h.holder), {
  label: `Retire ${holderName(h.holder)}…`, why: h.retired && big(h.orphanedGrants) === 0n && big(h.liveGrants) === 0n ? 'It is retired, and nothing of it is out.' : undefined,
});

// roundTrip is how long its requests take of late, as it has said.
const roundTrip = (h) => (big(h.roundTripNs) > 0n ? lengthNs(h.roundTripNs) : el('span.none', null, 'unknown'));

export const holders = {
  title: () => 'Holders',

  controls: (params, go) => [search('Region', params.region, (region) => go({ region, page: '' }))],

  async load(params, signal) {
    const answer = await call('ListHolders', { region: params.region }, signal);
    meetRegions(new Set((answer.holders ?? []).map((h) => h.holder.region)));
    return answer;
  },

  render(answer, params, ctx) {
    const { shown, pager } = slice('holders', params, answer.holders ?? []);
    return [unusable(answer), table('Holders', [
      { head: 'Holder', cell: (h) => [swatch(h.holder.region), '/', el('a', { href: link('holder', h.holder) }, h.holder.instance)] },
      { head: 'State', long: true, cell: badges },
      { head: 'Epoch', number: true, cell: (h) => tokens(h.epoch) },
      { head: 'Last heard', cell: (h) => age(h.lastHeardUnixMs) },
      { head: 'Round trip', number: true, cell: roundTrip },
      { head: 'Grants', number: true, cell: (h) => tokens(h.liveGrants) },
      { head: 'Tokens', number: true, cell: (h) => tokens(h.liveTokens) },
      { head: 'Unknown grants', number: true, cell: (h) => tokens(h.orphanedGrants) },
      { head: 'Unknown tokens', number: true, cell: (h) => (big(h.orphanedTokens) > 0n ? el('b.alarming', null, tokens(h.orphanedTokens)) : '0') },
      { head: 'Policy version', number: true, cell: (h) => (big(h.policyVersion) > 0n ? tokens(h.policyVersion) : el('span.none', null, 'none')) },
      { head: 'Grants behind', number: true, cell: (h) => tokens(h.grantsBehind) },
      ctx.may('RetireHolder') && { head: 'Act', tight: true, cell: (h) => retireButton(h, ctx) },
    ], shown, { key: (h) => holderName(h.holder), hideCaption: true, empty: params.region ? `No holder has registered in region “${visible(params.region)}”.` : 'No holder has registered.' }), pager];
  },
};

export const holder = {
  nav: 'holders',
  title: (params) => [swatch(params.region ?? ''), ` / ${visible(params.instance)}`],
  heading: (params) => holderName(params),

  load: ({ region, instance }, signal) => call('ShowHolder', { holder: { region, instance } }, signal),

  render(answer, params, ctx) {
    const { status: h, grants = [] } = answer;
    const { shown, pager } = slice('holder', params, grants, 50);
    return [
      unusable(answer),
      el('p.badges', null, badges(h), retireButton(h, ctx)),
      facts(
        ['Epoch', tokens(h.epoch), 'figure'],
        ['Last heard', age(h.lastHeardUnixMs), silent(h) ? 'figure.alarm' : 'figure'],
        ['Registered', age(h.registeredUnixMs), 'figure'],
        ['Round trip', roundTrip(h), 'figure'],
        ['Holds', [tokens(h.liveTokens), el('span.percent', null, ` in ${count(h.liveGrants, 'grant')}`)], 'figure'],
        ['Unknown', [tokens(h.orphanedTokens), el('span.percent', null, ` in ${count(h.orphanedGrants, 'grant')}`)], big(h.orphanedTokens) > 0n ? 'figure.alarm' : 'figure'],
        ['Policy version', big(h.policyVersion) > 0n ? tokens(h.policyVersion) : 'none', 'figure'],
        ['Grants behind', tokens(h.grantsBehind), 'figure'],
      ),
      grantsTable('Grants', shown, ctx, { holder: false, empty: 'Nothing of it is out.' }),
      pager,
    ];
  },
};
