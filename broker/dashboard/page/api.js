// Calls of the Admin service of the broker that served this page.

const root = document.querySelector('meta[name="root"]').content;

// patience is how long an answer may take, in milliseconds.
const patience = 15000;

// Refusal is an answer that is an error. Its code is one of Connect's, such as
// "permission_denied"; "unreachable" means that there was no answer.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// call asks one method. Numbers of 64 bits come as strings: see format.js.
export async function call(method, request, signal) {
  const limit = AbortSignal.timeout(patience);
  let response;
  try {
    response = await fetch(new URL(`${root}tokenlease.v1.Admin/${method}`, document.baseURI), {
      method: 'POST',
      // The broker knows how long the answer is waited for, and answers before that.
      headers: { 'Content-Type': 'application/json', 'Connect-Protocol-Version': '1', 'Connect-Timeout-Ms': String(patience) },
      body: JSON.stringify(request ?? {}),
      cache: 'no-store',
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
    if (response.ok) return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal('unreachable', limit.aborted ? `no answer within ${patience / 1000} s` : 'the broker cannot be reached');
  }
  throw refusal(response.status, await response.text().catch(() => ''));
}

// refusal reads an error of the service, or of something before it.
function refusal(status, text) {
  try {
    const { code, message } = JSON.parse(text);
    return new Refusal(code ?? 'unknown', message || `status ${status}`);
  } catch {
    return new Refusal(status === 403 ? 'permission_denied' : 'unknown', text.trim() || `status ${status}`);
  }
}

// optional is an answer, or undefined where this broker does not know the method or
// the caller may not call it.
export async function optional(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error.code === 'unimplemented' || error.code === 'permission_denied') return undefined;
    throw error;
  }
}
