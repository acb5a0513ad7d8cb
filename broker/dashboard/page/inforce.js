// Which policy rules an operation of an account, from what the Admin service lists:
// as package inforce tells it for the commands. It is for showing alone.

// planOf is the plan that an account is on: its own or the default one, '' for none.
export const planOf = (listed, own) => own?.plan || listed.defaultPlan || '';

const planNamed = (listed, name) => (listed.plans ?? []).find((p) => p.name === name);

// inForce has what rules each operation of an account, in order of operation:
// {operation, policy, disabled}. What the account has of its own may be undefined. Of
// a plan that is not listed nothing is known, and nothing is admitted.
export function inForce(listed, own) {
  const plan = planOf(listed, own);
  const ranks = [own?.policies ?? [], planNamed(listed, plan)?.policies ?? [], listed.policies ?? []]; // those before go before
  const lost = plan !== '' && !planNamed(listed, plan);
  const rulers = (lost ? ranks.slice(0, 2) : ranks).map((policies) => new Map(policies.map((p) => [p.operation, p])));
  const off = new Map((listed.disabled ?? []).map((d) => [d.operation, d]));
  const operations = new Set([...ranks.flat().map((p) => p.operation), ...off.keys()]);
  return [...operations].sort().map((operation) => ({
    operation, policy: rulers.map((of) => of.get(operation)).find(Boolean), disabled: off.get(operation),
  }));
}
