// The theme that was chosen, before anything is drawn. Without a choice it is the
// system's. See memory.js; this is no module, since those come after the first paint.
try {
  const chosen = JSON.parse(localStorage.getItem('tokenlease.theme'));
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // Nothing was chosen that can be read.
}
