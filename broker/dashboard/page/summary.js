// The line below the navigation: the cluster, who serves it, and what is out in all.

import { el } from './dom.js';
import { big, count, length, now, tokens, visible } from './format.js';
import { badge, link } from './parts.js';

const sum = (rows, field) => rows.reduce((all, row) => all + big(row[field]), 0n);

// strip is the line. Its sums are short where records cannot be read.
export function strip({ who, cluster, shards, holders, short }) {
  return [
    cluster && item('Cluster', el('span.id', { title: visible(cluster.clusterId) }, visible(cluster.clusterId).slice(0, 8)), (cluster.generation ?? 0) > 1 && ` generation ${cluster.generation}`),
    cluster && item('Brokers', el('a', { href: link('shards') }, brokers(cluster.brokers ?? []))),
    shards && item('Shards', el('a', { href: link('shards') }, owners(shards))),
    cluster && item('Policy version', el('a', { href: link('policies') }, tokens(cluster.policyVersion))),
    holders && item('Held', short && 'at least ', `${tokens(sum(holders, 'liveTokens'))} in `, el('a', { href: link('grants') }, count(sum(holders, 'liveGrants'), 'grant'))),
    holders && item('Unknown', unknown(holders, short)),
    item('You', identity(who)),
  ];
}

const item = (term, ...value) => el('span.item', { 'data-key': term }, el('span.term', null, term), ' ', value);

function brokers(all) {
  const lost = all.filter((b) => !b.reached).length;
  return lost ? badge(`${all.length - lost} of ${all.length} reached`, 'alarm') : `${all.length}`;
}

function owners(shards) {
  const lost = shards.filter((s) => !s.brokerId).length;
  return lost ? badge(`${lost} of ${shards.length} without owner`, 'alarm') : `${shards.length}, all owned`;
}

function unknown(holders, short) {
  const grants = sum(holders, 'orphanedGrants');
  if (grants === 0n) return short ? 'none that can be read' : 'none';
  return el('a', { href: link('grants', { state: 'ORPHANED' }) }, short && 'at least ', el('b.alarming', null, tokens(sum(holders, 'orphanedTokens'))), ` in ${count(grants, 'grant')}`);
}

function identity(who) {
  if (!who) return 'not told';
  const roles = (who.roles ?? []).join(', ');
  return [who.verified ? visible(who.name) : 'no certificate', roles && ` (${visible(roles)})`, ends(who.certificateExpiresUnixMs, (left) => badge(`certificate ${left}`, 'warn'))];
}

// ends tells of a certificate that ends within a week.
const week = 7 * 86400e3;

function ends(unixMs, tell) {
  const left = Number(unixMs ?? 0) - now();
  if (!Number(unixMs ?? 0) || left > week) return null;
  return tell(left > 0 ? `ends in ${length(left)}` : 'has ended');
}

// alarms are what nobody should overlook, on whichever view.
export function alarms({ cluster, shards, who }) {
  const words = [ends(who?.serverCertificateExpiresUnixMs, (left) => `The broker’s certificate ${left}: renew it, nobody can connect without.`)].filter(Boolean);
  for (const alarm of cluster?.store?.alarms ?? []) words.push(`etcd has raised ${alarm}. With NOSPACE it takes no commits: nothing is granted until it has room again.`);
  const lost = (shards ?? []).filter((s) => !s.brokerId);
  if (lost.length) words.push(`${count(lost.length, 'shard')} without owner: their budgets grant nothing until a broker takes over. ${lost.slice(0, 10).map((s) => s.shard ?? 0).join(', ')}${lost.length > 10 ? ' …' : ''}`);
  return words.map((text) => el('p', { 'data-key': text }, visible(text)));
}
