package journal_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tokenlease/tokenlease/regional/journal"
)

// A limiter draws from a grant and ends without accounting for it. Its next start proves how much at most
// was spent.
func Example() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	cfg := journal.Config{
		Path:     filepath.Join(dir, journal.DefaultFile),
		Region:   "eu-west",
		Instance: "limiter-0",
	}

	// The first start: registered as epoch 1, it holds a grant of 15 tokens and draws a block of 10.
	first, err := journal.Open(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = first.BindCluster("cluster-1")
	_ = first.Begin(1, "start-nonce-1")
	if counter, err := first.Draw(1, []journal.Drawn{{GrantID: "grant-a", Tokens: 10}}); err == nil {
		fmt.Println("10 tokens may be spent; tell the broker counter", counter)
	}
	_ = first.Close() // as a crash would

	// The next start: whatever happened, at least 5 of the 15 tokens were not spent.
	second, err := journal.Open(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Close()
	epochs, _ := second.Epochs()
	for _, e := range epochs {
		fmt.Println("epoch", e.Number, "counter", e.Counter, "drew", e.Drawn)
		_ = second.Finish(e.Number) // once every shard has confirmed the account
	}
	_ = second.Begin(second.LastEpoch()+1, "start-nonce-2")
	fmt.Println("last epoch", second.LastEpoch())

	// Output:
	// 10 tokens may be spent; tell the broker counter 2
	// epoch 1 counter 2 drew [{grant-a 10}]
	// last epoch 2
}
