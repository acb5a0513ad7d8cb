// Columns of a table of policies.

import { deadline, hasDeadline, staleness, weakness } from './deadline.js';
import { el } from './dom.js';
import { age, big, rule, strictness, tokens } from './format.js';
import { badge } from './parts.js';

// terms are what a policy says; a row without a policy has none of it.
export const terms = [
  { head: 'Rule', long: true, cell: rule },
  { head: 'Cost', number: true, cell: (p) => [tokens(p.defaultCostTokens), big(p.maxCostTokens) > 0n && el('span.none', null, ` to ${tokens(p.maxCostTokens)}`)] },
  { head: 'Max share', number: true, cell: (p) => `${p.maxSharePercent || 100} %` },
  { head: 'Max staleness', number: true, cell: (p) => (big(p.maxStalenessNs) > 0n ? staleness(p) : el('span.none', null, staleness(p))) },
  { head: 'Reclaim', wide: true, cell: (p) => (hasDeadline(p) ? badge(deadline(p), 'warn', weakness) : 'proof') },
  { head: 'Strict', cell: (p) => { const is = strictness(p); return is === 'yes' ? is : badge(is, 'warn', is === 'by clocks' ? weakness : undefined); } },
  { head: 'Version', number: true, cell: (p) => tokens(p.version) },
  { head: 'Updated', cell: (p) => age(p.updatedUnixMs, 'unknown') },
];
