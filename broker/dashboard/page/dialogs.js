// Dialogs for acting: what would happen, what is attested, who says so and why, and
// the name typed to confirm.

import { el, patch } from './dom.js';
import { visible } from './format.js';
import { recall, remember } from './memory.js';

// Errors that say that nothing was done. After any other it may have been.
const refusals = ['invalid_argument', 'not_found', 'already_exists', 'permission_denied', 'unauthenticated', 'failed_precondition', 'resource_exhausted', 'unimplemented'];

// act asks a person to confirm something, and does it.
//
//   title, verb: of the dialog and its button
//   preview():   resolves to {nodes, options}: what would happen, and the choices that
//                it calls for: {name, text, explain} is one to tick, and with values,
//                [value, words] each, one to be made among them
//   typed:       the name to type; absent where there is nothing to lose
//   reason:      'required' or 'optional'
//   send(values, previewed): does it; values has by, because and the options;
//                resolves to nodes that say what was done
//   done():      is called after it was done
export function act(who, { title, verb, preview, typed, reason = 'required', send, done }) {
  const id = (part) => `dialog-${part}`;
  const shown = el('div.preview', { 'aria-live': 'polite', id: id('preview') }, el('p.note', null, 'Asking the broker what this would do …'));
  const fault = el('p.fault', { role: 'alert', id: id('fault') });
  const options = el('div', { id: id('options') });
  const because = el('textarea', { id: id('because'), rows: '2', maxlength: '1024', required: reason === 'required', 'aria-describedby': id('because-note') });
  const by = el('input', { id: id('by'), maxlength: '128', autocomplete: 'name', required: true });
  by.value = recall('person', '');
  const name = el('input', { id: id('name'), autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true });
  const submit = el('button.danger', { type: 'submit', id: id('submit') }, verb);
  const cancel = el('button', { type: 'button', id: id('cancel') }, 'Cancel');
  const form = el('form', null,
    el('h2', { id: id('title') }, title),
    shown,
    options,
    field('because', reason === 'required' ? 'Why (required)' : 'Why', because, 'Recorded in the audit log.'),
    who?.verified
      ? el('p.note', null, 'Recorded as ', el('b', null, visible(who.name)), ', the name in your certificate.')
      : field('by', 'Your name', by, 'Recorded as you write it: the broker has no certificate to check it by.'),
    typed && field('name', el('span', null, 'Type ', el('code', null, visible(typed)), ' to confirm'), name),
    fault,
    el('div.buttons', null, cancel, submit));
  const dialog = el('dialog', { 'aria-labelledby': id('title'), id: 'dialog' }, form);

  let previewed;
  let busy = true; // until there is a preview
  const ready = () => {
    const named = !typed || name.value === typed || name.value === visible(typed);
    const chosen = [...options.querySelectorAll('select')].every((list) => list.value);
    submit.disabled = busy || !previewed || !named || !chosen || (reason === 'required' && !because.value.trim()) || (!who?.verified && !by.value.trim());
  };
  const look = async () => {
    busy = true;
    ready();
    try {
      previewed = await preview();
      patch(shown, previewed.nodes);
      const chosen = [...options.querySelectorAll('select')].map((list) => [list, list.value]);
      patch(options, (previewed.options ?? []).map((one) => (one.values ? choice(one) : option(one))));
      for (const [list, value] of chosen) list.value = [...list.options].some((o) => o.value === value) ? value : '';
    } catch (error) {
      previewed = undefined;
      patch(shown, el('p', null, 'There is nothing to confirm:'));
      fault.textContent = visible(error.message);
    }
    busy = false;
    ready();
  };
  form.oninput = ready;
  cancel.onclick = () => dialog.close();
  dialog.onclose = () => dialog.remove();
  form.onsubmit = async (event) => {
    event.preventDefault();
    ready();
    if (submit.disabled) return;
    busy = true;
    ready();
    fault.textContent = '';
    const values = { because: because.value.trim(), by: who?.verified ? who.name : by.value.trim() };
    for (const box of options.querySelectorAll('input')) values[box.name] = box.checked;
    for (const list of options.querySelectorAll('select')) values[list.name] = list.value;
    if (!who?.verified) remember('person', values.by);
    try {
      const nodes = await send(values, previewed);
      done?.();
      close(nodes);
    } catch (error) {
      await look(); // what has changed meanwhile, and what that calls for
      fault.textContent = outcome(error);
      fault.scrollIntoView({ block: 'nearest' });
    }
  };
  // close tells what was done; nothing is left to confirm.
  const close = (nodes) => {
    const end = el('button', { type: 'button', id: id('close') }, 'Close');
    end.onclick = () => dialog.close();
    form.replaceChildren(el('h2', { id: id('title') }, title), el('div', { role: 'status', id: id('done') }, nodes), el('div.buttons', null, end));
    end.focus();
  };
  document.body.append(dialog);
  dialog.showModal();
  because.focus();
  look();
}

// outcome says what has come of it.
function outcome({ code, message }) {
  if (refusals.includes(code)) return `Refused: ${visible(message)}`;
  if (code === 'data_loss') return `Not all of it is done: ${visible(message)}`;
  return `No answer: ${visible(message)}. It may have been done all the same; to repeat it is safe.`;
}

const field = (part, label, input, explain) => el('div.field', null,
  el('label', { for: `dialog-${part}` }, label), input,
  explain && el('p.note', { id: `dialog-${part}-note` }, explain));

const option = ({ name, text, explain }) => el('div.option', { 'data-key': name },
  el('input', { type: 'checkbox', name, id: `dialog-${name}`, 'aria-describedby': `dialog-${name}-note` }),
  el('div', null, el('label', { for: `dialog-${name}` }, text), el('p.note', { id: `dialog-${name}-note` }, explain)));

const choice = ({ name, text, explain, values }) => el('div.field', { 'data-key': name },
  el('label', { for: `dialog-${name}` }, text),
  el('select', { name, id: `dialog-${name}`, required: true, 'aria-describedby': `dialog-${name}-note` },
    el('option', { value: '' }, 'choose …'),
    values.map(([value, words]) => el('option', { value, 'data-key': value }, words))),
  el('p.note', { id: `dialog-${name}-note` }, explain));
