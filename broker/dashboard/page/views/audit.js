// Audit: what operators did, newest first.

import { call } from '../api.js';
import { el } from '../dom.js';
import { age, name, now, visible } from '../format.js';
import { badge, counted, pager, table } from '../parts.js';
import { choice, search } from './controls.js';

const hour = 3600e3;
const spans = [['', 'at any time'], [String(hour), 'in the last hour'], [String(24 * hour), 'in the last day'], [String(168 * hour), 'in the last week']];

export const audit = {
  title: () => 'Audit',
  every: 2000,

  controls: (params, go) => [
    choice('Done', spans, params.within, (within) => go({ within, page: '' })),
    search('Action, such as holders.retire', params.action, (action) => go({ action, page: '' })),
    search('By', params.by, (by) => go({ by, page: '' })),
  ],

  load: (params, signal) => call('ListAudit', {
    sinceUnixMs: params.within ? Math.max(0, Math.round(now() - Number(params.within))) : undefined,
    action: params.action, by: params.by, pageSize: 50, pageToken: params.page,
  }, signal),

  render(page, params) {
    const rows = page.entries ?? [];
    return [table('Audit', [
      { head: 'When', cell: (e) => age(e.unixMs) },
      { head: 'Action', long: true, cell: (e) => [el('span.id', null, visible(e.action)), e.forced && badge('forced', 'alarm', 'A safeguard was overridden.')] },
      { head: 'Subject', wide: true, cell: (e) => name(e.subject) },
      { head: 'By', long: true, cell: (e) => [name(e.by), e.verified ? badge('verified', 'good', 'The name of a certificate.') : badge('claimed', '', 'The caller’s word.')] },
      { head: 'Because', wide: true, cell: (e) => name(e.because) },
      { head: 'Change', long: true, cell: difference },
    ], rows, { key: (e) => e.id, hideCaption: true, empty: params.page ? 'There are no more.' : 'Nothing was done that fits.' }),
    pager('audit', params, page.nextPageToken, counted(rows, 'entry', 'entries'))];
  },
};

const difference = (e) => (e.beforeJson || e.afterJson) && el('details.json', null, el('summary', null, 'before and after'),
  el('pre', { tabindex: '0', 'aria-label': 'Before' }, pretty(e.beforeJson)), el('pre', { tabindex: '0', 'aria-label': 'After' }, pretty(e.afterJson)));

function pretty(json) {
  if (!json) return 'nothing';
  try {
    return visibleLines(JSON.stringify(JSON.parse(json), null, 1));
  } catch {
    return visible(json);
  }
}

const visibleLines = (text) => text.split('\n').map(visible).join('\n');
