// The page: which view the address names, asking the broker again and again, and
// saying how current what is shown is.

import * as actions from './actions.js';
import * as placing from './actions-cluster.js';
import { call, optional } from './api.js';
import { el, patch } from './dom.js';
import { big, moment, setClock, visible } from './format.js';
import { remember } from './memory.js';
import { link, meetRegions, note } from './parts.js';
import { alarms, strip } from './summary.js';
import { account, accounts } from './views/accounts.js';
import { audit } from './views/audit.js';
import { budget } from './views/budget.js';
import { budgets } from './views/budgets.js';
import { grant, grants } from './views/grants.js';
import { holder, holders } from './views/holders.js';
import { policies } from './views/policies.js';
import { shards } from './views/shards.js';

// A view has
//
//   title(params)           nodes for its heading; heading(params) is the same as
//                           text, for the window, where they are not
//   controls(params, go)    fields above it, if any
//   load(params, signal)    what it asks the broker for
//   render(data, params, ctx)  nodes that show that
//   every                   how often to ask, in milliseconds: a second if unset
//   nav                     the view that leads to it
const views = { budgets, grants, holders, policies, accounts, audit, shards, budget, grant, holder, account };
const listed = ['budgets', 'grants', 'holders', 'policies', 'accounts', 'audit', 'shards'];

const second = 1000;
const $ = (id) => document.getElementById(id);

const state = {
  name: '', params: {}, // of the view
  data: null, // its newest answer
  at: 0, // when that came
  fault: null, // the error since
  faults: 0, // in a row
  paused: false,
  who: null, // null: not asked yet; undefined: this broker does not tell
  summary: {},
};

// ctx is what views know of the page. What the caller may do is what WhoAmI lists;
// a broker that does not tell decides when it is asked.
const ctx = {
  may: (method) => state.who === undefined || Boolean(state.who?.methods?.includes(method)),
  act: {
    retire: (of) => actions.retire(state.who, of, refresh),
    resolve: (of) => actions.resolve(state.who, of, refresh),
    disable: (operation) => actions.disable(state.who, operation, refresh),
    enable: (of) => actions.enable(state.who, of, refresh),
    rollback: (version) => placing.rollback(state.who, version, refresh),
    move: (shard) => placing.move(state.who, shard, refresh),
  },
};

// go changes parameters of the view, and the address with them.
function go(change) {
  history.replaceState(null, '', link(state.name, { ...state.params, ...change }));
  navigate(true);
}

// navigate shows the view that the address names. own says that a field of the view
// has changed the address: then the fields stay as they are.
function navigate(own = false) {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const name = Object.hasOwn(views, path) ? path : 'budgets';
  const first = state.name === '';
  const same = name === state.name;
  const view = views[name];
  const params = Object.fromEntries(new URLSearchParams(query));
  Object.assign(state, { name, params, data: null, at: 0, fault: null, faults: 0 });

  document.title = `${view.heading?.(params) ?? view.title(params)} · tokenlease`;
  $('title').replaceChildren(...[view.title(params)].flat());
  if (!own) $('controls').replaceChildren(...(view.controls?.(params, go) ?? []));
  patch($('nav'), listed.map((to) => el('a', { href: link(to), 'aria-current': to === (view.nav ?? name) ? 'page' : undefined }, views[to].title())));
  if (!same || view.heading) patch($('content'), note('Asking the broker …'));
  $('content').setAttribute('aria-busy', 'true');
  if (!own && !first) {
    $('main').focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  refresh();
}

let asking; // the question that is out
let timer;

// refresh asks for the view now, and then again after a while.
async function refresh() {
  clearTimeout(timer);
  asking?.abort();
  const mine = new AbortController();
  asking = mine;
  const began = performance.now();
  try {
    const data = await views[state.name].load(state.params, mine.signal);
    if (mine.signal.aborted) return;
    Object.assign(state, { data, at: Date.now(), fault: null, faults: 0 });
  } catch (error) {
    if (mine.signal.aborted) return;
    Object.assign(state, { fault: error, faults: state.faults + 1 });
  }
  draw();
  again(performance.now() - began);
}

// again asks once more, a second after the answer, or later where answers take long:
// the broker works a fifth of its time for a page, at most.
function again(took) {
  if (state.paused || document.hidden) return;
  const wait = state.fault ? Math.min(10, 2 ** (state.faults - 1)) * second : Math.max(views[state.name].every ?? second, 4 * took);
  timer = setTimeout(refresh, wait);
}

// Errors that say something about what was asked for, and not about how the broker
// is. Anything else leaves what is shown as it was, marked as old.
const verdicts = {
  unimplemented: 'This broker does not have that view yet.',
  permission_denied: 'You may not see this.',
  unauthenticated: 'The broker does not know you: give this browser the certificate of a viewer or an operator, and reload.',
  not_found: 'There is none.',
  invalid_argument: 'The address of this view is not right.',
};

function draw() {
  const view = views[state.name];
  const { data, fault } = state;
  const verdict = fault && verdicts[fault.code];
  if (verdict || (fault && !data)) {
    patch($('content'), el('div.empty', { 'data-key': 'fault' }, el('h2', null, verdict ?? 'No answer yet.'), note(visible(fault.message)),
      el('p', null, el('a', { href: link(view.nav ?? state.name) }, `All ${views[view.nav ?? state.name].title().toLowerCase()}`))));
  } else if (data) {
    patch($('content'), view.render(data, state.params, ctx));
  }
  $('content').removeAttribute('aria-busy');
  mark(verdict ? null : fault);
}

// mark says how current the page is.
function mark(fault) {
  const pill = state.paused ? 'paused' : fault ? 'stale' : 'live';
  if ($('status').textContent !== pill) $('status').textContent = pill;
  $('status').className = `pill ${pill}`;
  $('status').title = state.at ? `as of ${moment(state.at)}` : '';
  $('main').classList.toggle('stale', Boolean(fault));
  patch($('alert'),
    fault && el('p', { 'data-key': 'stale' }, el('b', null, 'No answer: '), `${visible(fault.message)}. `, state.at ? `What is shown is of ${moment(state.at)}.` : ''),
    alarms(state.summary));
}

// summarize brings the line at the top up to date, less often: totals take the
// broker more work than a page of a view.
async function summarize() {
  const began = performance.now();
  try {
    const [who, cluster, shardList, holderList] = await Promise.all([
      optional(call('WhoAmI')), optional(call('ShowCluster')), optional(call('ListShards')), optional(call('ListHolders')),
    ]);
    const told = state.who === null;
    Object.assign(state, { who, summary: { who, cluster, shards: shardList?.shards, holders: holderList?.holders, short: big(holderList?.unusableCount) > 0n } });
    if (cluster?.unixMs) setClock(cluster.unixMs);
    meetRegions(new Set((holderList?.holders ?? []).map((h) => h.holder.region)));
    patch($('cluster'), strip(state.summary));
    if (told && state.at) draw(); // what may be done is known now
  } catch {
    // The view tells that the broker does not answer.
  }
  const wait = Math.max(5 * second, 10 * (performance.now() - began));
  setTimeout(() => (state.paused || document.hidden ? wake.then(summarize) : summarize()), wait);
}

// wake resolves when the page is looked at again.
let awake;
let wake = new Promise((resolve) => { awake = resolve; });

function resume() {
  if (state.paused || document.hidden) {
    clearTimeout(timer);
    return;
  }
  awake();
  wake = new Promise((resolve) => { awake = resolve; });
  refresh();
}

$('pause').onclick = () => {
  state.paused = !state.paused;
  $('pause').setAttribute('aria-pressed', String(state.paused));
  $('pause').textContent = state.paused ? 'Resume' : 'Pause';
  if (state.paused) asking?.abort();
  mark(state.fault && !verdicts[state.fault.code] ? state.fault : null);
  resume();
};

const dark = matchMedia('(prefers-color-scheme: dark)');
const theme = () => document.documentElement.dataset.theme ?? (dark.matches ? 'dark' : 'light');
const nameTheme = () => { $('theme').textContent = theme() === 'dark' ? 'Light' : 'Dark'; };
$('theme').onclick = () => {
  document.documentElement.dataset.theme = theme() === 'dark' ? 'light' : 'dark';
  remember('theme', theme());
  nameTheme();
};
dark.onchange = nameTheme;
nameTheme();

// The hash is the address of a view, so the way past the navigation is not a hash.
$('skip').onclick = (event) => {
  event.preventDefault();
  $('main').focus();
};

addEventListener('hashchange', () => navigate());
document.addEventListener('visibilitychange', resume);
navigate();
summarize();
