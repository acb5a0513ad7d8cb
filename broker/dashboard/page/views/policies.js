// Policies: what is in force, how far it has come, and how it came to be.

import { call, optional } from '../api.js';
import { changeList } from '../changes.js';
import { el } from '../dom.js';
import { age, big, count, holderName, name, tokens, visible } from '../format.js';
import { badge, budgetLink, button, holderLink, link, note, pager, section, table, unusable, weaker } from '../parts.js';
import { terms } from '../policytable.js';

export const policies = {
  title: () => 'Policies',
  every: 3000,

  async load(params, signal) {
    const [inForce, status, history] = await Promise.all([
      call('ListPolicies', {}, signal),
      optional(call('ShowPolicyStatus', {}, signal)),
      optional(call('ListPolicyHistory', { pageSize: 20, pageToken: params.page }, signal)),
    ]);
    return { inForce, status, history };
  },

  render: ({ inForce, status, history }, params, ctx) => [
    status ? progress(status) : note('This broker does not tell how far a version has come.'),
    disabled(inForce.disabled ?? [], ctx),
    rules('For everybody', inForce.policies ?? [], inForce.disabled ?? [], ctx),
    plans(inForce),
    history ? versions(history, params, ctx) : section('History', note('This broker does not tell the history of its policies.')),
  ],
};

function installed(status) {
  if (status.installed) return 'is taken up everywhere';
  const behind = (status.shardsBehind ?? []).length + (status.holdersBehind ?? []).length;
  return behind > 0 ? 'is not taken up everywhere yet' : 'is taken up wherever that is known';
}

function progress(status) {
  const version = `Version ${tokens(status.version)}`;
  if (status.installed && status.settled) return el('p.verdict.good', { 'data-key': 'status' }, `${version} is taken up everywhere: no limiter holds credit under an older one, and no budget has more out than its cap.`);
  return el('div.verdict.warn', { 'data-key': 'status' },
    unusable(status, (n) => `${count(n, 'record')} cannot be read, so more may be behind or above its cap than is told.`),
    el('p', null, `${version} ${installed(status)}; ${status.settled ? 'no budget has more out than its cap' : big(status.budgetsAboveCount) === 0n ? 'whether a budget has more out than its cap is not known' : `${count(status.budgetsAboveCount, 'budget has', 'budgets have')} more out than the cap, and until that is in the old cap is the guarantee`}.`),
    (status.shardsBehind ?? []).length > 0 && el('p', null, `Shards behind: ${status.shardsBehind.join(', ')}.`),
    (status.holdersBehind ?? []).length > 0 && table('Limiters behind', [
      { head: 'Holder', cell: (h) => holderLink(h.holder) },
      { head: 'Up to version', number: true, cell: (h) => tokens(h.policyVersion) },
      { head: 'Grants', number: true, cell: (h) => tokens(h.grants) },
      { head: 'Outstanding', number: true, cell: (h) => tokens(h.outstandingTokens) },
      { head: 'Last heard', cell: (h) => age(h.lastHeardUnixMs) },
    ], status.holdersBehind, { key: (h) => holderName(h.holder) }),
    (status.budgetsAbove ?? []).length > 0 && table('Budgets above their cap', [
      { head: 'Budget', wide: true, cell: (b) => [budgetLink(b.key), weaker(b)] },
      { head: 'Cap', number: true, cell: (b) => tokens(b.capacityTokens) },
      { head: 'Out', number: true, cell: (b) => tokens(b.reservedTokens) },
      { head: 'Held by', long: true, cell: (b) => (b.holders ?? []).map((h, i) => [i > 0 && ', ', holderLink(h.holder), ` ${tokens(h.outstandingTokens)}`, big(h.orphanedTokens) > 0n && ` (${tokens(h.orphanedTokens)} unknown)`]) },
    ], status.budgetsAbove, { key: (b) => JSON.stringify(b.key) }));
}

const disabled = (rows, ctx) => rows.length > 0 && table('Disabled operations', [
  { head: 'Operation', cell: (d) => name(d.operation) },
  { head: 'Because', wide: true, cell: (d) => name(d.because) },
  { head: 'By', cell: (d) => name(d.disabledBy) },
  { head: 'Since', cell: (d) => age(d.sinceUnixMs) },
  ctx.may('EnableOperation') && { head: 'Act', tight: true, cell: (d) => button('Enable…', () => ctx.act.enable(d), { label: `Enable ${visible(d.operation)}…` }) },
], rows, { key: (d) => d.operation });

function rules(caption, rows, off, ctx) {
  const isOff = new Set(off.map((d) => d.operation));
  return table(caption, [
    { head: 'Operation', wide: true, cell: (p) => [name(p.operation), (p.disabled || isOff.has(p.operation)) && badge('disabled', 'alarm', visible(p.disabledBecause))] },
    ...terms,
    ctx?.may('DisableOperation') && { head: 'Act', tight: true, cell: (p) => button('Disable…', () => ctx.act.disable(p.operation), { label: `Disable ${visible(p.operation)}…`, why: isOff.has(p.operation) ? 'It is disabled.' : undefined }) },
  ], rows, { key: (p) => p.operation, empty: 'No policy is in force: everything is denied.' });
}

function plans(inForce) {
  const all = inForce.plans ?? [];
  if (!all.length) return null;
  return section('Plans',
    note(el('a', { href: link('accounts') }, 'Accounts'), ' are assigned to plans. ', inForce.defaultPlan ? `Accounts without a plan of their own have ${inForce.defaultPlan}.` : 'Accounts without a plan of their own have none.'),
    all.map((plan) => el('details', { 'data-key': `plan ${plan.name}` },
      el('summary', null, el('b', null, plan.name), ` ${count((plan.policies ?? []).length, 'operation')}, version ${tokens(plan.version)}, `, age(plan.updatedUnixMs, 'unknown'), ' ', plan.name === inForce.defaultPlan && badge('default')),
      rules(`Plan ${plan.name}`, plan.policies ?? [], inForce.disabled ?? []))));
}

function versions(history, params, ctx) {
  return section('History',
    el('ol.history', null, (history.versions ?? []).map((v) => el('li', { 'data-key': `version ${v.version}` },
      el('details', null,
        el('summary', null, el('b', null, tokens(v.version)), ' ', v.action, big(v.toVersion) > 0n && ` to ${tokens(v.toVersion)}`, ' by ', name(v.by), ', ', age(v.unixMs), v.because && [': ', name(v.because)]),
        changeList(v.changes ?? [])),
      ctx.may('RollbackPolicies') && button('Roll back…', () => ctx.act.rollback(v.version), {
        label: `Roll back to version ${tokens(v.version)}…`, why: big(v.version) >= big(history.version) ? 'It is in force.' : undefined,
      })))),
    pager('policies', params, history.nextPageToken, count((history.versions ?? []).length, 'version')));
}
