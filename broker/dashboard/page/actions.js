// What an operator can do from the page. Each says what is attested in the words of
// the command, and leaves the decision to the broker.

import { call } from './api.js';
import { canLapse, lapses } from './deadline.js';
import { act } from './dialogs.js';
import { el } from './dom.js';
import { big, count, holderName, length, name, tokens, visible } from './format.js';
import { facts, lapseColumn, note, table, unusable } from './parts.js';

// heard says how long ago a holder was heard.
const heard = (ms) => (Number(ms) < 0 ? 'never' : `${length(Number(ms))} ago`);

// retire attests that a holder's epoch is gone.
export function retire(who, holder, done) {
  const named = holderName(holder);
  act(who, {
    title: `Retire ${named}`,
    verb: 'Retire',
    typed: named,
    done,
    preview: async () => {
      const would = await call('RetireHolder', { holder, dryRun: true });
      return { would, nodes: retirePreview(named, would), options: would.needsForce ? [force(would)] : [] };
    },
    send: async (values, { would }) => {
      const did = await call('RetireHolder', {
        holder, epoch: would.status.epoch, attestedBy: values.by, because: values.because, force: Boolean(values.force),
      });
      return [el('p', null, `${named} is retired, epoch ${tokens(did.status?.epoch)} and before. `, count(did.grantsCount, 'grant'), ' resolved: ', effect(did.countedAsSpentTokens, did.freedSlots), '.'), inTheWay(did)];
    },
  });
}

const force = (would) => ({
  name: 'force',
  text: 'Retire the holder all the same, and record that it was forced',
  explain: `It was heard ${heard(would.heardMsAgo)}, so it probably runs. If it does, what it still admits is above the budget. Stop it first, for good, and wait a minute; or force this if you know that it cannot run any more.`,
});

// effect is what becomes of what was outstanding.
function effect(spent, slots) {
  const parts = [];
  if (big(slots) > 0n) parts.push(`${count(slots, 'slot')} ${big(slots) === 1n ? 'is' : 'are'} free at once`);
  if (big(spent) > 0n || parts.length === 0) parts.push(`${count(spent, 'token')} count${big(spent) === 1n ? 's' : ''} as spent`);
  return parts.join(', ');
}

// comesBack is what becomes of what counts as spent.
const comesBack = 'comes back by the rule of its budget: through refill, or as its window ends, never at once, and to a fixed quota never at all';

const inTheWay = (answer) => unusable(answer, (n) => `${count(n, 'unreadable record')} ${big(n) === 1n ? 'is' : 'are'} in the way: what they hold stays reserved until they are mended.`);

function retirePreview(named, would) {
  const grants = would.grants ?? [];
  return [
    el('p', null, 'You attest that no process of ', el('b', null, named), `, epoch ${tokens(would.status?.epoch)} or earlier, runs, or can ever resume. It is fenced, ${big(would.countedAsSpentTokens) > 0n ? `and what it holds counts as spent now: that ${comesBack}` : 'and no tokens of it are out'}.`),
    facts(
      ['Cluster', would.clusterId],
      ['Last heard', heard(would.heardMsAgo), would.needsForce && 'alarm'],
      ['Grants', tokens(would.grantsCount)],
      ['Counts as spent', count(would.countedAsSpentTokens, 'token')],
      big(would.freedSlots) > 0n && ['Free at once', count(would.freedSlots, 'slot')],
    ),
    inTheWay(would),
    grants.length > 0 && el('div.inset', { tabindex: '0', role: 'region', 'aria-label': 'Grants that are resolved' }, table('Grants that are resolved', [
      { head: 'Grant', cell: (g) => el('span.id', null, g.grantId) },
      { head: 'Account', cell: (g) => name(g.budget?.account) },
      { head: 'Operation', cell: (g) => name(g.budget?.operation) },
      { head: 'Epoch', number: true, cell: (g) => tokens(g.epoch) },
      { head: 'Outstanding', number: true, cell: (g) => tokens(g.outstandingTokens) },
      lapseColumn(grants),
    ], grants.slice(0, 200), { key: (g) => g.grantId, hideCaption: true })),
    big(would.grantsCount) > 200n && note(`and ${tokens(big(would.grantsCount) - 200n)} more`),
    note('Wait for the holder’s own account where you can: it gives it when it starts again with its journal.'),
  ];
}

// resolve attests that nobody can spend one grant any more.
export function resolve(who, grant, done) {
  const named = holderName(grant.holder);
  act(who, {
    title: `Resolve grant ${grant.grantId}`,
    verb: 'Resolve',
    typed: grant.grantId,
    done,
    preview: async () => {
      const { grant: is } = await call('ShowGrant', { grantId: grant.grantId });
      const live = is.state === 'GRANT_STATE_LIVE';
      const would = live && await call('RetireHolder', { holder: is.holder, dryRun: true }); // whether it takes force to fence it
      return { nodes: resolvePreview(named, is), options: live ? [retireEpoch(named, is), ...(would.needsForce ? [force(would)] : [])] : [] };
    },
    send: async (values) => {
      const did = await call('ResolveGrant', {
        grantId: grant.grantId, attestedBy: values.by, because: values.because, retireEpoch: Boolean(values.retireEpoch), force: Boolean(values.retireEpoch && values.force),
      });
      return [el('p', null, `${grant.grantId} is resolved. What was outstanding: ${tokens(did.countedAsSpentTokens)}.`)];
    },
  });
}

const retireEpoch = (named, grant) => ({
  name: 'retireEpoch',
  text: `Fence epoch ${tokens(grant.epoch)} of ${named} as well`,
  explain: 'The epoch is still the current one, so the broker refuses to resolve its grant alone. Fenced, the holder has to start again, and its other grants are orphaned until it does.',
});

const resolvePreview = (named, grant) => [
  el('p', null, 'You attest that no process of ', el('b', null, named), `, epoch ${tokens(grant.epoch)}, runs, or can ever resume. What is outstanding counts as spent now, and ${comesBack}. Slots are free at once instead: of those you attest that the work which held them has ended.`),
  facts(
    ['Account', name(grant.budget?.account)],
    ['Operation', name(grant.budget?.operation)],
    ['Outstanding', count(grant.outstandingTokens, 'token')],
    canLapse(grant) && ['Lapses', lapses(grant)],
  ),
];

// disable denies an operation for everybody.
export function disable(who, operation, done) {
  act(who, {
    title: `Disable ${visible(operation)}`,
    verb: 'Disable',
    typed: operation,
    done,
    preview: async () => ({
      nodes: [el('p', null, 'Every check of ', el('b', null, name(operation)), ' is denied, for every account, until the operation is enabled again, whatever policies are applied meanwhile. Limiters hear of it within 30 s. Callers are told why.')],
    }),
    send: async (values) => {
      const did = await call('DisableOperation', { operation, disabledBy: values.by, because: values.because });
      return [el('p', null, 'Disabled, as policy version ', tokens(did.version), '.')];
    },
  });
}

// enable ends what disable began.
export function enable(who, disabled, done) {
  act(who, {
    title: `Enable ${visible(disabled.operation)}`,
    verb: 'Enable',
    reason: 'optional',
    done,
    preview: async () => ({
      nodes: [el('p', null, 'Its policies rule again.'), facts(['Disabled because', name(disabled.because)], ['By', name(disabled.disabledBy)])],
    }),
    send: async (values) => {
      const did = await call('EnableOperation', { operation: disabled.operation, enabledBy: values.by, because: values.because });
      return [el('p', null, did.wasDisabled ? `Enabled, as policy version ${tokens(did.version)}.` : 'It was enabled already.')];
    },
  });
}
