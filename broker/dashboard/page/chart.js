// The last few minutes of one budget, as this page has seen them.

import { el, svg } from './dom.js';
import { big, capacity, length, tokens } from './format.js';
import { heldTokens } from './parts.js';

const kept = 5 * 60e3; // milliseconds
const histories = new Map(); // key to samples, of the budgets that were looked at last
const width = 600;
const height = 120;

const series = [
  { kind: 'available', text: 'available', value: (s) => s.available },
  { kind: 'held', text: 'held by regions', value: (s) => s.held },
  { kind: 'unknown', text: 'unknown', value: (s) => s.unknown },
];

// sample keeps what a budget is now, and returns its history.
export function sample(budget, at = Date.now()) {
  const key = JSON.stringify([budget.key?.account, budget.key?.operation]);
  const history = (histories.get(key) ?? []).filter((s) => s.at > at - kept);
  history.push({ at, available: big(budget.availableTokens), held: heldTokens(budget), unknown: big(budget.orphanedTokens) });
  histories.delete(key);
  histories.set(key, history);
  if (histories.size > 20) histories.delete(histories.keys().next().value);
  return history;
}

// chart draws a history.
export function chart(budget, history) {
  const cap = capacity(budget.policy);
  const most = history.reduce((m, s) => [s.available, s.held, s.unknown].reduce((a, b) => (a > b ? a : b), m), cap > 0n ? cap : 1n);
  const until = history.at(-1).at;
  const x = (at) => Math.round(width * (1 - (until - at) / kept) * 10) / 10;
  const y = (amount) => Math.round((height - (Number((amount * 10000n) / most) / 10000) * height) * 10) / 10;
  const path = (value) => history.map((s, i) => (i ? `H${x(s.at)}V${y(value(s))}` : `M${x(s.at)} ${y(value(s))}`)).join('');
  const last = history.at(-1);
  const words = series.map((s) => `${s.text} ${tokens(s.value(last))}`).join(', ');
  return el('figure.chart', { 'data-key': 'chart' },
    el('div.plot', null,
      el('span.axis.top', { 'aria-hidden': 'true' }, tokens(most)),
      el('span.axis.bottom', { 'aria-hidden': 'true' }, '0'),
      svg('svg', { viewBox: `0 -2 ${width} ${height + 4}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `The last ${length(until - history[0].at)}: now ${words}` },
        [0, 0.25, 0.5, 0.75, 1].map((part) => svg('line.grid', { x1: 0, x2: width, y1: height * part, y2: height * part })),
        [1, 2, 3, 4].map((minute) => svg('line.grid', { x1: (width * minute) / 5, x2: (width * minute) / 5, y1: 0, y2: height })),
        series.map((s) => [svg(`path.line.${s.kind}`, { d: path(s.value) }), svg(`path.point.${s.kind}`, { d: `M${x(last.at)} ${y(s.value(last))}h0` })]))),
    el('div.times', { 'aria-hidden': 'true' }, el('span', null, '5 min ago'), el('span', null, 'now')),
    el('figcaption', null, el('ul.legend', null, series.map((s) => el('li', null, el(`span.stroke.${s.kind}`, { 'aria-hidden': 'true' }), `${s.text} `, el('b', null, tokens(s.value(last)))))),
      el('span.note', null, `kept while this page is open: ${length(until - history[0].at)} so far`)));
}
