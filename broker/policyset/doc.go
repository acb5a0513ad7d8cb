// Package policyset says which policy rules a budget.
//
// A [Set] is everything that was decided for more than one account, as it stood at
// one policy version: the policies for everybody, the plans, the default plan and
// the disabled operations. These are few, and every shard has them. What an account
// has of its own is one [record.Account], which is read with its budgets: there may
// be a million of them.
//
// # What goes before what
//
// The account's own policy of an operation goes before that of its plan (its own, or
// the default one), and that before the policy for everybody. Whatever rules then,
// a disabled operation is denied.
//
// # Why the version of a budget's policy only rises
//
// A ledger takes up higher versions only, and what was promised under one holds
// until the next (contract C8). But what rules a budget may fall back to a policy
// that is older: a plan loses its policy, an account moves to another plan and back.
// So the version under which a policy rules a budget ([Ruling]) is not that of the
// policy alone. It is the greatest version of all that decided it:
//
//   - the policy itself;
//   - the account: the version at which something was last taken from it, or its plan
//     changed (Shrunk);
//   - the default plan, if the account has none of its own and no policy of its own:
//     the version at which that was chosen;
//   - the plan, if the account has no policy of its own: the version at which a policy
//     was last removed from it (Shrunk);
//   - the operation: the version at which it was last disabled or enabled.
//
// Each change has a version above all earlier ones, and the set and the accounts
// form one chain of versions. Take two neighbours of the chain, X-1 and X, and a
// budget that is ruled at both. If nothing that counts for it changed, its version is
// the same. Where a policy that rules it was added or changed, it has version X.
// Where one that ruled it was removed, the account or plan that lost it, and that
// still counts, has Shrunk = X; a policy for everybody leaves no ruling at all, until
// another one is put in force, with a version above. Where the account's plan has
// changed, or the default plan that counts for it, the account's Shrunk, or the
// version of the default plan, is X. Something stops counting only by such a change.
// So the version rises to X whenever the terms of the budget change, and never falls.
//
// Damage is no change, and has no version: while a plan cannot be read, or an account's
// record was deleted, the budgets that it ruled are ruled otherwise, or not at all,
// under a version that may be one of before. Nobody knows what it had. So a plan or
// account that is made where none is known has Shrunk = X, as if it had lost
// something: what it had and does not name any more ends with it. And an operation of
// which it cannot be read whether it is disabled is disabled, at the version in force.
//
// That holds for the chain. Who uses a set together with an account's record has to
// use both as they stood at one version of it: an older account with a newer set
// would be given versions that the account, as it is, never reaches. Package shard
// says how it sees to that.
package policyset
