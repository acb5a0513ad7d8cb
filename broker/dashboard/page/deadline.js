// What "reclaim: deadline" in a policy means, in words: what a silent limiter has out
// counts as spent after a while, which is weaker than proof.

import { big, exact } from './format.js';

export const hasDeadline = (policy) => policy?.reclaim === 'RECLAIM_DEADLINE';

// deadline is a policy's deadline in few words: max-staleness and margin. Rankings
// know no more than that there is one.
export const deadline = (policy) => `weaker than proof: deadline${big(policy.maxStalenessNs) > 0n ? ` ${exact(policy.maxStalenessNs)} + ${exact(policy.reclaimMarginNs)}` : ''}`;

// weakness says what a deadline rests on.
export const weakness = 'What a silent limiter has out counts as spent once it must have stopped by its own clocks. That is weaker than proof: nothing has shown that it did, and a clock that lags or a pause longer than the margin lets more be admitted than the rule says.';

// reclaim is how what a lost limiter may still have comes back, as the policy says.
export const reclaim = (policy) => (hasDeadline(policy) ? `deadline, margin ${exact(policy.reclaimMarginNs)}: weaker than proof` : 'proof');

// staleness is for how long limiters spend without news.
export const staleness = (policy) => (big(policy.maxStalenessNs) > 0n ? exact(policy.maxStalenessNs) : 'no limit');

export const canLapse = (grant) => big(grant.lapsesAfterNs) > 0n;

// lapses is when what a grant has out counts as spent without proof.
export const lapses = (grant) => (canLapse(grant) ? `${exact(grant.lapsesAfterNs)} after the newest request about its budget in that epoch` : 'never');
