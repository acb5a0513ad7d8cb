// What this browser remembers between visits: the theme, the operator's name, the
// colours of regions. A browser that keeps nothing is fine.

const own = (key) => `tokenlease.${key}`;

export function recall(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(own(key))) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(own(key), JSON.stringify(value));
  } catch {
    // It is asked for again.
  }
}
