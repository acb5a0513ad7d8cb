// The fields of a policy by the names and in the order of a policy file, and the
// fields in which two policies differ: as the commands write them.

import { big, exact, rule, strictness, word } from './format.js';

const rate = (amount, ns) => (big(amount) > 0n ? `${big(amount)} per ${exact(ns)}` : '0');

// fields are [name, value]. Optional ones are there where they say something.
export function fields(p) {
  const bucket = (name, b) => [[`${name}.capacity`, big(b.capacityTokens)], [`${name}.refill`, rate(b.refillTokens, b.refillIntervalNs)]];
  return [
    ['operation', p.operation],
    ...ruleFields(p, bucket),
    ['cost', big(p.defaultCostTokens)],
    big(p.maxCostTokens) > 0n && ['max-cost', big(p.maxCostTokens)],
    p.allowZeroCost && ['allow-zero-cost', true],
    ['max-share', `${p.maxSharePercent || 100}%`],
    big(p.holdNs) > 0n && exact(p.holdNs) !== '1m' && ['hold', exact(p.holdNs)],
    p.postpaid && ['postpaid', true],
    p.shadow && ['shadow', true],
    p.disabled && ['disabled', true],
    p.disabledBecause && ['disabled-because', p.disabledBecause],
    big(p.maxStalenessNs) > 0n && ['max-staleness', exact(p.maxStalenessNs)],
    ['reclaim', p.reclaim === 'RECLAIM_DEADLINE' ? 'deadline' : 'proof'],
    p.reclaim === 'RECLAIM_DEADLINE' && ['reclaim-margin', exact(p.reclaimMarginNs)],
    ['on-unavailable', p.local ? 'local' : 'reject'],
    ...(p.local ? [...bucket('local', p.local), ['local.for', exact(p.local.forNs)]] : []),
  ].filter(Boolean).map(([name, value]) => [name, String(value)]);
}

function ruleFields(p, bucket) {
  const { fixedWindow: fixed, rollingWindow: rolling, concurrency } = p;
  if (fixed) return [['fixed-window.limit', big(fixed.limitTokens)], ['fixed-window.period', word(fixed.period, 'PERIOD_')], ['fixed-window.time-zone', fixed.timeZone || 'UTC']];
  if (rolling) return [['rolling-window.limit', big(rolling.limitTokens)], ['rolling-window.window', exact(rolling.windowNs)]];
  if (concurrency) return [['concurrency.slots', big(concurrency.slots)]];
  return bucket('token-bucket', p.tokenBucket ?? {});
}

const kind = (p) => ['fixedWindow', 'rollingWindow', 'concurrency'].find((of) => p[of]) ?? 'tokenBucket';

const ofRule = /^(token-bucket|fixed-window|rolling-window|concurrency)\./;

// differences are [name, before, after], undefined where a side has no such field.
// Rules of two kinds have none in common, and are told as a whole.
export function differences(before, after) {
  const another = kind(before) !== kind(after);
  const [was, is] = [before, after].map((p) => new Map(fields(p).filter(([name]) => !(another && ofRule.test(name)))));
  const strict = [before, after].map((p) => strictness(p));
  return [
    another && ['rule', rule(before), rule(after)],
    ...[...new Set([...was.keys(), ...is.keys()])].filter((name) => was.get(name) !== is.get(name)).map((name) => [name, was.get(name), is.get(name)]),
    strict[0] !== strict[1] && ['strict', ...strict],
  ].filter(Boolean);
}
