// Fields above a view, which change the address and so the view.

import { el } from '../dom.js';

let fields = 0;
const labelled = (text, input) => {
  input.id = `field-${(fields += 1)}`;
  return el('div.control', null, el('label', { for: input.id }, text), input);
};

// search changes the view a moment after the last key.
export function search(text, value, changed) {
  const input = el('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', maxlength: '256' });
  input.value = value ?? '';
  let timer;
  const tell = () => {
    clearTimeout(timer);
    if (input.value !== (input.told ?? value ?? '')) changed((input.told = input.value));
  };
  input.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 250);
  };
  input.onchange = tell;
  return labelled(text, input);
}

// choice is a field with a few values: [value, text].
export function choice(text, values, value, changed) {
  const select = el('select', null, values.map(([of, words]) => el('option', { value: of, selected: of === (value ?? '') }, words)));
  select.onchange = () => changed(select.value);
  return labelled(text, select);
}
