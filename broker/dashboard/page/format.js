// Numbers, times and names for people.

import { el } from './dom.js';

const plain = new Intl.NumberFormat('en');
const moments = new Intl.DateTimeFormat('sv', { dateStyle: 'short', timeStyle: 'medium' });

// big is a number of the wire, which carries 64 bits as strings.
export const big = (text) => BigInt(text ?? 0);

// tokens writes a whole number: 1,234,567.
export const tokens = (value) => plain.format(typeof value === 'bigint' ? value : big(value));

// count writes a number of things: "1 grant", "2 grants".
export const count = (n, one, many = `${one}s`) => `${tokens(BigInt(n ?? 0))} ${BigInt(n ?? 0) === 1n ? one : many}`;

// share is part/whole in percent, to two places.
export const share = (part, whole) => (whole > 0n ? Number((part * 10000n) / whole) / 100 : 0);

// The broker's wall clock: ages are told by it, and not by this machine's.
let ahead = 0;
export const setClock = (unixMs) => { ahead = Number(unixMs) - Date.now(); };
export const now = () => Date.now() + ahead;

const units = [[86400e3, 'd'], [3600e3, 'h'], [60e3, 'min'], [1e3, 's']];

// length writes a length of time in its two largest units: "2 h 5 min".
export function length(ms) {
  if (ms < 1000) return `${Math.max(0, ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms))} ms`;
  if (ms < 10e3) return `${Math.round(ms / 100) / 10} s`;
  let rest = Math.round(ms / 1000) * 1000;
  const parts = [];
  for (const [size, name] of units) {
    const n = Math.floor(rest / size);
    if (n > 0) parts.push(`${n} ${name}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
    rest -= n * size;
  }
  return parts.join(' ');
}

// lengthNs is length of nanoseconds of the wire.
export const lengthNs = (ns) => length(Number(big(ns)) / 1e6);

// exact writes a length of nanoseconds in the longest unit that divides it, as in
// policy files: "90s".
export function exact(ns) {
  const all = big(ns);
  for (const [size, name] of [[86400000000000n, 'd'], [3600000000000n, 'h'], [60000000000n, 'm'], [1000000000n, 's'], [1000000n, 'ms'], [1000n, 'us']]) {
    if (all % size === 0n) return `${all / size}${all === 0n ? 's' : name}`;
  }
  return `${all}ns`;
}

// age writes how long ago a moment was, with the moment itself as its title.
export function age(unixMs, never = 'never') {
  const at = Number(unixMs ?? 0);
  if (!at) return el('span.none', null, never);
  const passed = now() - at;
  const text = passed < 1000 ? 'now' : `${length(Math.floor(passed / 1000) * 1000)} ago`;
  return el('time', { datetime: new Date(at).toISOString(), title: `${moments.format(at)} here, ${new Date(at).toISOString()}` }, text);
}

// moment writes a moment of this machine's clock.
export const moment = (at) => moments.format(at);

// Characters that show nothing or turn what follows around, other than the joiner
// inside an emoji: a name may have them to look like another.
const hidden = /(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])\u200D|[\p{Cc}\p{Zl}\p{Zp}\u00AD\u061C\u180E\u200B\u200C\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB\u3164\u115F\u1160\u{E0000}-\u{E0FFF}]/gu;

// visible is a name with what is hidden in it written out.
export const visible = (name) => (name ?? '').replace(hidden, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);

// name is a name of others as an element: on its own in either direction, whole in
// its title, shortened on the page where it is long.
export const name = (text) => (text ? el('bdi.name', { title: visible(text), dir: 'auto' }, visible(text)) : '');

// holderName is REGION/INSTANCE, as everywhere.
export const holderName = (h) => `${h?.region ?? ''}/${h?.instance ?? ''}`;

// word is the end of a constant: GRANT_STATE_LIVE is "live".
export const word = (constant, prefix) => (constant ?? '').replace(prefix, '').toLowerCase().replaceAll('_', ' ');

// capacity is the cap of a policy's rule.
export function capacity(policy) {
  return big(policy?.tokenBucket?.capacityTokens ?? policy?.fixedWindow?.limitTokens ?? policy?.rollingWindow?.limitTokens ?? policy?.concurrency?.slots);
}

const rate = (amount, ns) => `${tokens(amount)} per ${exact(ns)}`;

// rule is a policy's rule in words, as the command writes it.
export function rule(policy) {
  const { tokenBucket: bucket, fixedWindow: fixed, rollingWindow: rolling, concurrency } = policy ?? {};
  if (bucket) return `${tokens(bucket.capacityTokens)}, ${big(bucket.refillTokens) > 0n ? `refill ${rate(bucket.refillTokens, bucket.refillIntervalNs)}` : 'no refill'}`;
  if (fixed) return `${tokens(fixed.limitTokens)} per ${word(fixed.period, 'PERIOD_')} (${fixed.timeZone || 'UTC'})`;
  if (rolling) return `${tokens(rolling.limitTokens)} in any ${exact(rolling.windowNs)}`;
  if (concurrency) return count(concurrency.slots, 'slot');
  return 'none';
}

// local is a policy's local allowance in words.
export function local(allowance) {
  const refill = big(allowance.refillTokens) > 0n ? `refill ${rate(allowance.refillTokens, allowance.refillIntervalNs)}` : 'no refill';
  return `${tokens(allowance.capacityTokens)}, ${refill}, for ${exact(allowance.forNs)}`;
}

// looseness is why a policy lets more be admitted than its rule: empty if it does
// not.
export function looseness(policy, notStrict) {
  const why = [policy?.shadow && 'shadow', policy?.postpaid && 'postpaid', policy?.local && 'local allowance'].filter(Boolean);
  return why.length ? why.join(', ') : notStrict ? 'by its policy' : '';
}

// strictness is whether no more than the rule is ever admitted, as the command says it:
// by clocks it is where lost credit is reclaimed by deadline.
export function strictness(policy, notStrict) {
  const why = looseness(policy, notStrict);
  if (why) return `no: ${why}`;
  return policy?.reclaim === 'RECLAIM_DEADLINE' ? 'by clocks' : 'yes';
}

// origin is where a policy comes from.
export function origin(policy) {
  if (policy?.account) return 'this account alone';
  if (policy?.plan) return `plan ${policy.plan}`;
  return 'everybody';
}
