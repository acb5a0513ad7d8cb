package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	tokenleasev1 "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// reserveCommand asks a limiter for a reservation.
func (p *program) reserveCommand() *cobra.Command {
	settings := &clientSettings{server: limiterServer}
	flags := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "reserve ACCOUNT OPERATION",
		Short: "Reserve the most that an operation may cost, or slots, until it is settled",
		Long: `Ask a limiter whether an operation may start whose cost is known only when it has
ended, or which holds slots while it runs. --cost is the most that it may cost, or
the number of slots.

The answer names the RESERVATION. When the work has ended, tell what it did cost:

    tokenlease settle ACCOUNT OPERATION RESERVATION --cost N

What is below the reservation goes back to the region at once. Unsettled, the
reservation ends after EXPIRES-IN, as long as the policy's hold says: then all of
it counts as spent, and slots are released, whether the work goes on or not.

The exit codes are those of ` + "`tokenlease check`" + `. A denial holds nothing.`,
		Example: `  tokenlease reserve acme chat.complete --cost 900
  tokenlease settle acme chat.complete 0123456789abcdef0123456789abcdef --cost 412

  # A slot, held while the work runs.
  tokenlease reserve acme report.render --max-wait 30s`,
	}
	cmd.ValidArgsFunction = p.completeAtBroker(settings, p.accountNames, p.operationNames)
	flags.register(cmd.Flags())
	return clientCommand(cmd, settings, 2, func(ctx context.Context, args []string) error {
		check, err := flags.request(cmd.Flags(), args)
		if err != nil {
			return err
		}
		request := &tokenleasev1.ReserveRequest{Check: check}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		asking := flags.waiting(settings)
		answer, err := ask(ctx, asking, asking.limiter().Reserve, request)
		if err != nil {
			return err
		}
		if err := p.writeReservation(settings.output, answer); err != nil {
			return err
		}
		return checkVerdict([]*tokenleasev1.CheckResponse{answer.GetResponse()})
	})
}

// writeReservation prints the answer, and what it advises on stderr.
func (p *program) writeReservation(format outputFormat, answer *tokenleasev1.ReserveResponse) error {
	a := answer.GetResponse()
	expires := ""
	if answer.GetReservationId() != "" {
		expires = timeLeftInWords(time.Duration(answer.GetExpiresInNs()))
	}
	t := &table{heading: []string{
		"ANSWER", "REASON", "RESERVATION", "RESERVED", "EXPIRES-IN", "REMAINING", "LIMIT", "RETRY-IN", "POLICY", "GRANT",
	}}
	t.add(answerWord(a), enumWord(a.GetReason(), "REASON_"), answer.GetReservationId(), answer.GetReservedTokens(), expires,
		a.GetRemainingTokens(), a.GetLimitTokens(), retryIn(a.GetHasRetry(), a.GetRetryInNs()), a.GetPolicyVersion(), a.GetGrantId())
	addNotes(t, []*tokenleasev1.CheckResponse{a})
	if a.GetDetail() != "" {
		fmt.Fprintf(p.stderr, "%s\n", cell(a.GetDetail()))
	}
	return p.write(format, answer, t)
}

// settleCommand ends a reservation.
func (p *program) settleCommand() *cobra.Command {
	settings := &clientSettings{server: limiterServer}
	var cost tokens
	cmd := &cobra.Command{
		Use:   "settle ACCOUNT OPERATION RESERVATION",
		Short: "End a reservation with what the operation did cost",
		Long: `End a reservation with what the operation did cost: the rest goes back to the
region at once. Ask the limiter that made the reservation. It is safe to repeat:
only the first settlement counts.

Without --cost all of it goes back, as is right for slots and for work that did
not start. More than was reserved is refused, unless the policy is postpaid: then
what is above becomes DEBT, which is paid before the next admission.

The exit code is 0 when the reservation has ended by this settlement or by an
earlier one, and 1 when it has not.`,
		Example: `  tokenlease settle acme chat.complete 0123456789abcdef0123456789abcdef --cost 412
  tokenlease settle acme report.render 0123456789abcdef0123456789abcdef`,
	}
	cmd.ValidArgsFunction = p.completeAtBroker(settings, p.accountNames, p.operationNames)
	cmd.Flags().Var(&cost, "cost", "`tokens` that the operation did cost; of slots always 0")
	return clientCommand(cmd, settings, 3, func(ctx context.Context, args []string) error {
		request := &tokenleasev1.SettleRequest{
			Key: &tokenleasev1.BudgetKey{Account: args[0], Operation: args[1]}, ReservationId: args[2], CostTokens: int64(cost),
		}
		if err := request.Validate(); err != nil {
			return usageError{err}
		}
		answer, err := ask(ctx, settings, settings.limiter().Settle, request)
		if err != nil {
			return err
		}
		settled := "no"
		if answer.GetSettled() {
			settled = "yes"
		}
		t := &table{heading: []string{"SETTLED", "RETURNED", "DEBT"}}
		t.add(settled, answer.GetReturnedTokens(), answer.GetDebtTokens())
		if answer.GetDetail() != "" {
			fmt.Fprintf(p.stderr, "%s\n", cell(answer.GetDetail()))
		}
		if err := p.write(settings.output, answer, t); err != nil || answer.GetSettled() {
			return err
		}
		return exitError{code: exitNo}
	})
}
