// Package record says what the broker stores, and where.
//
// Everything is under one prefix, as JSON that an operator can read with
// etcdctl:
//
//	cluster                                     Cluster: identity, number of shards, generation
//	declarations/<generation>                   Declaration: a declared restore
//	policyset                                   PolicySet: the policy version, rewritten by every change of policies
//	policies/<operation>                        Policy for everybody, in force
//	plans/<name>                                Plan: policies for the accounts that are assigned to it
//	accounts/<account>                          Account: the plan and policies of one account, never deleted
//	defaults                                    Defaults: the plan of accounts without one
//	disabled/<operation>                        Disabled: whether an operation is disabled, whatever its policies say
//	history/<version>                           History: a change of policies; the newest 1,000 are kept
//	holders/<region>/<instance>                 Registration: the holder's newest epoch
//	brokers/<id>                                Broker: a live broker (bound to its session)
//	moves/<nnn>                                 Move: the broker that an operator gave the shard to
//	owners/<nnn>                                Owner: which broker serves the shard (bound to its session)
//	shards/<nnn>/head                           Head: clock and grant counter, rewritten by every commit
//	shards/<nnn>/budgets/<account>/<operation>  Budget: a ledger without its grants
//	shards/<nnn>/grants/<region>/<instance>/<epoch>/<id>  Grant
//	shards/<nnn>/fences/<region>/<instance>     Fence: which epochs the shard serves
//	shards/<nnn>/templates/<operation>          Budget: what budgets without a record have
//	audit/<time>-<what>                         Audit: what operators did
//
// Names in keys are path-escaped. A budget without a record is full, with
// nothing out, in generation 1; see [Era] for the others. Grants are plain keys, never bound to a session: expiry would
// delete a reservation (contract C3.5).
//
// Only the owner of a shard writes under shards/<nnn>/, in transactions that
// compare its ownership and the head.
package record
