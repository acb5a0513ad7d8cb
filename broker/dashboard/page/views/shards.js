// Shards: who serves them, the brokers, and etcd below.

import { call, optional } from '../api.js';
import { el } from '../dom.js';
import { age, big, length, lengthNs, name, share, tokens, visible } from '../format.js';
import { badge, button, facts, note, section, slice, table, unusable } from '../parts.js';

export const shards = {
  title: () => 'Shards',
  every: 2000,

  async load(_, signal) {
    const [list, cluster] = await Promise.all([call('ListShards', {}, signal), optional(call('ShowCluster', {}, signal))]);
    return { list, cluster };
  },

  render({ list, cluster }, params, ctx) {
    const { shown, pager } = slice('shards', params, list.shards ?? [], 64);
    return [
      cluster && brokers(cluster),
      cluster && store(cluster.store ?? {}),
      unusable(list),
      table('Shards', [
        { head: 'Shard', number: true, cell: (s) => String(s.shard ?? 0) },
        { head: 'Owner', cell: (s) => (s.brokerId ? el('span', { title: s.brokerUrl }, visible(s.brokerId)) : badge('no owner', 'alarm', 'Its budgets cannot be granted from until a broker takes it over.')) },
        { head: 'Since', cell: (s) => (s.brokerId ? age(s.ownedSinceUnixMs, 'not told') : '') },
        { head: 'Placed', long: true, cell: (s) => (s.movedTo ? `by an operator, at ${visible(s.movedTo)}` : el('span.none', null, 'by the cluster')) },
        { head: 'Head', number: true, cell: (s) => tokens(s.head) },
        { head: 'Last commit', cell: (s) => age(s.committedUnixMs, 'none yet') },
        { head: 'Ledger time', number: true, cell: (s) => lengthNs(s.ledgerNs) },
        { head: 'Policy version', number: true, cell: (s) => [tokens(s.policyVersion), ' ', cluster && big(s.policyVersion) < big(cluster.policyVersion) && badge('behind', 'warn')] },
        ctx.may('MoveShard') && { head: 'Act', tight: true, cell: (s) => button('Move…', () => ctx.act.move(s.shard ?? 0), { label: `Move shard ${s.shard ?? 0}…` }) },
      ], shown, { key: (s) => String(s.shard ?? 0), empty: 'None.' }),
      pager,
    ];
  },
};

const brokers = (cluster) => table('Brokers', [
  { head: 'Broker', cell: (b) => [visible(b.brokerId), ' ', b.brokerId === cluster.brokerId && badge('answers')] },
  { head: 'URL', wide: true, cell: (b) => name(b.url) },
  { head: 'Reached', cell: (b) => (b.reached ? badge('yes', 'good') : badge('no', 'alarm')) },
  { head: 'Shards', number: true, cell: (b) => String(b.shards ?? 0) },
  { head: 'Round trip', number: true, cell: (b) => (b.reached ? lengthNs(b.roundTripNs) : '') },
  { head: 'Clock', number: true, cell: (b) => (b.reached && b.unixMs ? clock(Number(b.unixMs) - Number(cluster.unixMs)) : '') },
  { head: 'Version', cell: (b) => visible(b.programVersion) },
], cluster.brokers ?? [], { key: (b) => b.brokerId });

// clock tells a difference between wall clocks, which is for display alone.
const clock = (ms) => (Math.abs(ms) < 1000 ? 'same' : `${length(Math.abs(ms))} ${ms > 0 ? 'ahead' : 'behind'}`);

function store(s) {
  if (!s.known) return section('etcd', note('The store does not tell how it is.'));
  return section('etcd',
    (s.alarms ?? []).length > 0 && facts(['Alarms', visible(s.alarms.join(', ')), 'alarm']),
    table('Members', [
      { head: 'Member', cell: (m) => [name(m.name), m.leader && badge('leader')] },
      { head: 'Reached', cell: (m) => (m.reached ? badge('yes', 'good') : badge('no', 'alarm', visible(m.problem))) },
      { head: 'Database', number: true, cell: (m) => bytes(m.sizeBytes) },
      { head: 'Quota', number: true, long: true, cell: (m) => (big(m.quotaBytes) > 0n ? `${bytes(m.quotaBytes)}, ${Math.round(share(big(m.sizeBytes), big(m.quotaBytes)))} % used` : el('span.none', null, 'not told')) },
      { head: 'Version', cell: (m) => visible(m.version) },
      { head: 'Problem', wide: true, cell: (m) => name(m.problem) },
    ], s.members ?? [], { key: (m) => m.name, hideCaption: true }));
}

const bytes = (n) => `${tokens(big(n) / 1048576n)} MiB`;
