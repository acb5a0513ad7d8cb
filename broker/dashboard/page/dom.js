// Making elements, and bringing a page up to date without losing its focus.
//
// Text from elsewhere only ever becomes text nodes and attributes. Styles that
// depend on data go through the CSSOM, since the content security policy allows no
// style attributes.

const handlers = ['onclick', 'oninput', 'onchange', 'onsubmit'];

// el makes an element: el('p.note', { id: 'x' }, 'text', child). Children that are
// null, undefined or false are left out; lists are flattened.
export function el(name, props, ...children) {
  const [tag, ...classes] = name.split('.');
  return fill(document.createElement(tag), classes, props, children);
}

// svg makes an element of a drawing.
export function svg(name, props, ...children) {
  const [tag, ...classes] = name.split('.');
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), classes, props, children);
}

function fill(node, classes, props, children) {
  if (classes.length) node.setAttribute('class', classes.join(' '));
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (handlers.includes(key)) node[key] = value;
    else if (key === 'style') for (const [name, to] of Object.entries(value)) node.style.setProperty(name, to);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

// patch makes the children of node those of fresh, and keeps every element that
// stays what it is, with its focus, its selection and its scrolling. Elements with
// data-key are the same when their keys are.
export function patch(node, ...fresh) {
  const wanted = fresh.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (typeof c === 'string' ? document.createTextNode(c) : c));
  const keep = new Set(wanted.map(keyOf).filter(Boolean));
  const keyed = new Map();
  for (const child of [...node.children]) {
    const key = keyOf(child);
    if (!key) continue;
    if (keep.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let at = node.firstChild;
  for (const want of wanted) {
    const key = keyOf(want);
    const have = key ? keyed.get(key) : at && !keyOf(at) ? at : null;
    if (!have) {
      node.insertBefore(want, at);
    } else if (have.nodeName !== want.nodeName) {
      if (have === at) at = at.nextSibling;
      have.replaceWith(want);
    } else {
      if (have === at) at = at.nextSibling;
      else node.insertBefore(have, at);
      update(have, want);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const keyOf = (node) => node.dataset?.key;

// update makes an element like another of the same name.
function update(have, want) {
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  for (const { name, value } of [...want.attributes]) {
    if (name !== 'style' && have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  for (const { name } of [...have.attributes]) {
    const opened = name === 'open' && have.nodeName === 'DETAILS'; // by a person
    if (name !== 'style' && !opened && !want.hasAttribute(name)) have.removeAttribute(name);
  }
  if (have.style.cssText !== want.style.cssText) have.style.cssText = want.style.cssText;
  for (const name of handlers) have[name] = want[name];
  patch(have, [...want.childNodes]);
}
