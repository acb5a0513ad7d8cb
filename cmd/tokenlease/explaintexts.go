package main

import "slices"

// explanations are everything that can be explained, in the order in which it is
// listed. A test holds that nothing that servers say is missing.
var explanations = slices.Concat(exitExplanations, errorExplanations, reasonExplanations, shortageExplanations,
	evidenceExplanations, stateExplanations, eventExplanations, holderExplanations, policyExplanations)

var exitExplanations = []explanation{
	{kindExit, "0", "Yes, or done.", ""},
	{kindExit, "1", "The answer is no: denied, not found, unhealthy, different, an invariant is violated, or you did not confirm.", "read what was printed: the command has worked"},
	{kindExit, "2", "The command line, a setting or a file is wrong. Nothing was changed.", "read the message, or the --help of the command"},
	{kindExit, "3", "No server that could answer was reached in time, or this one cannot start. A change that was asked for may have happened.", "see that it runs and which --broker or --limiter is asked, with `tokenlease doctor`; then repeat the command"},
	{kindExit, "4", "The server was reached and refused the request. It changed nothing.", "the message has the server's reason and its error code; `tokenlease explain` knows that too"},
}

var errorExplanations = []explanation{
	{kindError, "canceled", "The caller went away before the answer.", "repeat the request if you still want the answer"},
	{kindError, "unknown", "Something went wrong that has no code. It is not known whether the request was done.", "see the log of the server; requests are safe to repeat"},
	{kindError, "invalid_argument", "A field of the request breaks a rule. Nothing was done.", "the message names the field, and what it may be"},
	{kindError, "deadline_exceeded", "There was no answer in time. It is not known whether the request was done.", "give it longer with --timeout, or ask another broker; requests are safe to repeat"},
	{kindError, "not_found", "What was named is not there. A budget without a record is full, and nothing of it is out; a grant without one has ended, or never was.", "see the list: `tokenlease budgets list`, `grants list`, `holders list`"},
	{kindError, "already_exists", "What was to be made is there already.", "look at it before you make another"},
	{kindError, "permission_denied", "The server knows who you are, and your role may not do this. The attempt was logged.", "see your roles with `tokenlease doctor`; use the certificate of an operator to change something"},
	{kindError, "resource_exhausted", "The request or its answer is too large, or you ask too often. It says nothing about a budget.", "ask for less at once, or wait a little"},
	{kindError, "failed_precondition", "The state does not allow it: another epoch or version is current, the holder was heard a moment ago, or a safeguard must be overridden.", "look again at what is current; the message names the flag that overrides a safeguard"},
	{kindError, "aborted", "Something changed meanwhile. Nothing was done.", "look again, and repeat it"},
	{kindError, "out_of_range", "A number or a position is beyond what there is.", "the message tells the range"},
	{kindError, "unimplemented", "The server does not know the request: it is of another version, or no tokenlease.", "see which server is asked, and versions with `tokenlease doctor`"},
	{kindError, "internal", "The server contradicts itself.", "see its log, and report it with `tokenlease support-bundle`"},
	{kindError, "unavailable", "No safe authority could answer: the owner of the shard or etcd could not be reached. It is not known whether the request was done. It is never permission.", "repeat it; see `tokenlease doctor` if that does not pass"},
	{kindError, "data_loss", "What is stored cannot be read, or contradicts itself. Nothing is done with it.", "do not repair it by hand: run `tokenlease verify`, and see the runbook for a restore"},
	{kindError, "unauthenticated", "The server does not know who you are: it wants a certificate that it can check.", "name one with --cert and --key, and the server's authority with --ca"},
}

var reasonExplanations = []explanation{
	{kindReason, "allowed", "The cost was spent of credit that the limiter holds.", ""},
	{kindReason, "exhausted", "The budget is known to be used up (HTTP 429). Nothing was spent.", "wait for as long as the answer says; see who holds it with `tokenlease budgets show`"},
	{kindReason, "cost-above-capacity", "The cost can never fit into the budget, or into what one limiter may hold of it (HTTP 429 without Retry-After).", "ask for less at once, or raise the capacity or max-share of the policy"},
	{kindReason, "unavailable", "No safe authority could be reached, and the limiter holds no credit, or none that is newer than the policy's max-staleness (HTTP 503). It is not known whether the budget has any.", "see `tokenlease doctor`; the policy's on-unavailable decides what is answered"},
	{kindReason, "no-policy", "No policy rules the operation, so there is no budget to spend.", "apply a policy for it, or see that the operation is spelled as in `tokenlease policy list`"},
	{kindReason, "invalid", "The cost is not what the policy allows, or the request contradicts itself or an earlier one with the same decision ID (HTTP 400).", "the detail of the answer names what is wrong"},
	{kindReason, "disabled", "An operator has disabled the operation (HTTP 403).", "the detail of the answer says why; `tokenlease policy enable` ends it"},
	{kindReason, "fallback", "No authority could be reached, and the policy's local allowance admitted it, beyond the budget.", "see `tokenlease doctor`; such a budget is not strict"},
	{kindReason, "refresh", "The request names an older policy version than the one in force. Nothing was decided.", "read the policy version of the answer, and ask again"},
	{kindReason, "overloaded", "The limiter sheds checks to protect itself (HTTP 503). It says nothing about the budget.", "add limiters, or let fewer checks wait at once"},
}

var shortageExplanations = []explanation{
	{kindShortage, "exhausted", "The budget has nothing to hand out now.", "it comes back by refill, by the end of a window, or by what regions return"},
	{kindShortage, "no-policy", "No policy rules the operation.", "apply one: `tokenlease policy apply`"},
	{kindShortage, "above-capacity", "What is needed at once is more than could ever be held.", "raise the capacity or max-share of the policy, or lower the cost"},
	{kindShortage, "stale", "The report was older than the newest one applied: it was late. Its counters counted, and nothing was given.", ""},
	{kindShortage, "superseded", "A newer report of the same budget took its place while this one waited.", ""},
	{kindShortage, "recalling", "The holder's fair share covers the need, and credit is being called back from others.", "it takes a round trip of those; if it does not pass, see which region is silent: `tokenlease holders list`"},
}

var evidenceExplanations = []explanation{
	{kindEvidence, "above-issued", "A report has counters above all that was ever issued: a store or a disk was set back, or a holder runs twice.", "find out which before anything else. If etcd was restored from a copy: `tokenlease restore declare`"},
	{kindEvidence, "journal-lags", "A journal is older than one that was told before: its volume was restored or cloned. Its account was refused.", "bring the newest volume back; if that is lost: `tokenlease holders retire`"},
	{kindEvidence, "record-unusable", "The stored record of the budget cannot be read or breaks an invariant. Nothing is done with it.", "run `tokenlease verify`, and see the runbook"},
}

var stateExplanations = []explanation{
	{kindState, "live", "The epoch of the grant is its holder's current one: the limiter may be spending it.", ""},
	{kindState, "orphaned", "The epoch of the grant is gone and has not given its account. What is outstanding is unknown, and stays reserved.", "start the holder again with its journal: it accounts for it. If no such process can ever resume: `tokenlease grants resolve`, or `tokenlease holders retire` for all of a holder. Under reclaim: deadline it lapses by itself: see LAPSES-AFTER of `tokenlease grants list`"},
}

var eventExplanations = []explanation{
	{kindEvent, "opened", "The grant was made: its holder had none of this budget.", ""},
	{kindEvent, "topped-up", "More was issued under it.", ""},
	{kindEvent, "reported", "Its holder reported counters.", ""},
	{kindEvent, "returned", "Its holder gave back what it does not need.", ""},
	{kindEvent, "recalled", "The broker asked for what is wanted elsewhere.", ""},
	{kindEvent, "policy", "The budget came under another version of its policy.", ""},
	{kindEvent, "held", "Work still holds slots of it after its holder has ended it: they stay reserved.", "once that work has ended: `tokenlease grants resolve`"},
	{kindEvent, "closed", "Its holder ended it.", ""},
	{kindEvent, "accounted", "A final account ended it: of an orderly stop, or of a journal.", ""},
	{kindEvent, "orphaned", "Its holder started anew or was retired, without an account of it.", "see the grant state orphaned"},
	{kindEvent, "lapsed", "Under reclaim: deadline, nothing was heard of it for longer than its holder may spend without an answer, and the margin. What was outstanding counts as spent.", "see why its holder was silent: what it had comes back through refill, or as its window ends. A longer max-staleness bears longer silence"},
	{kindEvent, "resolved", "An operator attested that nobody can spend it any more.", "`tokenlease audit list --action grants.resolve` has the reason"},
}

// holderExplanations are of the words of STATE in `holders list`.
var holderExplanations = []explanation{
	{kindHolder, holderCurrent, "The epoch of the holder is the newest that registered: its limiter runs, or is silent. Silence proves nothing.", ""},
	{kindHolder, holderRetired, "An operator attested that no process of the epoch, or of an earlier one, runs or can ever resume. It gets no more credit until it starts again.", "`tokenlease audit list --action holders.retire` has the reason"},
	{kindHolder, holderFenced, "The epoch is of before a declared restore, and gets no more credit: the limiter has not started again since.", "start it again with its journal, or make sure that it never comes back; then `tokenlease restore attest`"},
	{kindHolder, holderUnknown, "The registration of the holder cannot be read.", "keep the store as it is, and run `tokenlease verify`"},
}

// policyExplanations are of the words about silence in policies and in what shows them.
var policyExplanations = []explanation{
	{kindPolicy, "proof", "By reclaim: proof, what a lost limiter may still have stays reserved until it has accounted for it, or an operator attests that it is gone.", ""},
	{kindPolicy, "deadline", "By reclaim: deadline, what a limiter has out of a budget also counts as spent once it has not asked about that budget for max-staleness and reclaim-margin together. It is weaker than proof: it rests on clocks and pauses.", "see LAPSES-AFTER of `tokenlease grants list --help`"},
	{kindPolicy, "max-staleness", "For so long after its newest answered request about a budget was sent, a limiter spends what it has of it. Then it answers unavailable, or by the local allowance.", "it is to be 10 round trips or more: `tokenlease holders list` tells them"},
	{kindPolicy, "reclaim-margin", "By so much later than max-staleness what a silent limiter has out counts as spent, under reclaim: deadline. It has to cover the drift of clocks and the pauses of processes.", ""},
	{kindPolicy, byClocks, "The budget is strict as far as the clocks and the pauses of limiters keep to the reclaim-margin of its policy, which says reclaim: deadline.", "reclaim: proof is strict whatever clocks do"},
}
