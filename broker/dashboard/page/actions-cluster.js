// What an operator can do about all policies at once, and about shards.

import { call } from './api.js';
import { changeList } from './changes.js';
import { act } from './dialogs.js';
import { el } from './dom.js';
import { age, big, count, name, tokens, visible } from './format.js';
import { badge, facts } from './parts.js';

// rollback puts in force again what was at an earlier version.
export function rollback(who, version, done) {
  act(who, {
    title: `Roll the policies back to version ${tokens(version)}`,
    verb: 'Roll back',
    done,
    preview: async () => {
      const would = await call('RollbackPolicies', { toVersion: version, dryRun: true });
      if (!would.changes?.length) throw new Error(`What was in force at version ${tokens(version)} is in force now.`);
      return { would, nodes: rollbackPreview(version, would) };
    },
    send: async (values, { would }) => {
      // Of what was shown alone: if the policies have changed since, the broker refuses.
      const did = await call('RollbackPolicies', { toVersion: version, appliedBy: values.by, because: values.because, ifVersion: would.version });
      return [el('p', null, `What was in force at version ${tokens(version)} is in force again, as version ${tokens(did.version)}: ${count((did.changes ?? []).length, 'change')}.`), warned(did.warnings)];
    },
  });
}

const total = (changes, field) => changes.reduce((all, c) => all + big(c[field]), 0n);

function rollbackPreview(version, would) {
  return [
    el('p', null, `All policies, plans and accounts are as they were at version ${tokens(version)} again, as a new version. What an operator has disabled stays disabled. Balances stay: nobody gets anything at once.`),
    facts(
      ['In force', `version ${tokens(would.version)}`],
      ['Changes', tokens(BigInt(would.changes.length))],
      ['Live budgets', tokens(total(would.changes, 'liveBudgets'))],
      ['Recalled', count(total(would.changes, 'recalledTokens'), 'token')],
    ),
    warned(would.warnings),
    el('div.inset', { tabindex: '0', role: 'region', 'aria-label': 'Changes', 'data-key': 'changes' }, changeList(would.changes)),
  ];
}

// warned are warnings of the broker about what is or would be in force.
const warned = (warnings = []) => warnings.length > 0 && el('div.verdict.warn', { 'data-key': 'warnings' },
  el('b', null, count(warnings.length, 'warning')),
  el('ul', null, warnings.map((words) => el('li', null, visible(words)))));

// move hands a shard to another broker, or the choice back to the cluster.
export function move(who, shard, done) {
  act(who, {
    title: `Move shard ${shard}`,
    verb: 'Move',
    done,
    preview: async () => {
      const [{ shards = [] }, { brokers = [] }] = await Promise.all([call('ListShards'), call('ShowCluster')]);
      const is = shards.find((s) => (s.shard ?? 0) === shard);
      if (!is) throw new Error(`There is no shard ${shard} in this cluster.`);
      const values = [...brokers.filter((b) => !(b.brokerId === is.brokerId && b.brokerId === is.movedTo)).map(target), ...(is.movedTo ? [['back', 'give the choice back to the cluster']] : [])];
      if (!values.length) throw new Error('There is no broker to move it to.');
      return { nodes: movePreview(is), options: [{ name: 'to', text: 'To', values, explain: 'The broker keeps the shard for as long as it lives, or until the choice is given back to the cluster.' }] };
    },
    send: async (values) => {
      const to = values.to === 'back' ? '' : values.to.slice('to '.length);
      const did = await call('MoveShard', { shard, toBrokerId: to, movedBy: values.by, because: values.because });
      return moved(shard, to, did);
    },
  });
}

const target = (b) => [`to ${b.brokerId}`, `${visible(b.brokerId)}, which owns ${count(b.shards, 'shard')}${b.reached ? '' : ' and was not reached'}`];

const movePreview = (s) => [
  el('p', null, 'Its owner commits what it has and gives the shard up, and the new owner goes on from there. The credit that is out stays where it is, and limiters find the new owner by themselves. For a moment nothing new is granted of its budgets.'),
  facts(
    ['Owner', s.brokerId ? name(s.brokerId) : badge('no owner', 'alarm')],
    s.brokerId && ['Since', age(s.ownedSinceUnixMs, 'not told')],
    ['Placed', s.movedTo ? ['by an operator, at ', name(s.movedTo)] : 'by the cluster'],
    ['Last commit', age(s.committedUnixMs, 'none yet')],
  ),
];

function moved(shard, to, did) {
  const owner = did.shard?.brokerId ? name(did.shard.brokerId) : 'no broker yet';
  if (!to) return [el('p', null, `The cluster chooses the owner of shard ${shard} again. It belongs to `, owner, '.')];
  if (did.moved) return [el('p', null, 'Moved: ', name(to), ` owns shard ${shard}.`)];
  return [el('p', null, name(to), ` does not own shard ${shard} yet. The move goes on, and the list tells; until then it belongs to `, owner, '.')];
}
