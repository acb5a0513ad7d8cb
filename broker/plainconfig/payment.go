package plainconfig

import (
	"slices"
	"strings"
	"unicode"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// paymentWords are words in the names of fields about money. No field here has one.
var paymentWords = []string{
	"amount", "bill", "billing", "card", "cardnumber", "charge", "checkout", "coupon", "creditcard", "currency", "cvc", "cvv", "debitcard",
	"discount", "fee", "iban", "invoice", "pay", "paypal", "payment", "price", "pricing", "tax",
}

// noPayment is what is said of them.
const noPayment = "payment is not handled here: this API sets limits alone"

// isPayment says whether a field is about money, however it is spelled: cardNumber,
// card_number, CARD, prices.
func isPayment(name string) bool {
	for _, word := range wordsOf(name) {
		if slices.Contains(paymentWords, word) || slices.Contains(paymentWords, strings.TrimSuffix(word, "s")) {
			return true
		}
	}
	return false
}

// wordsOf are the words of a name, in small letters. A word ends before what is no
// letter, and before a capital behind a small letter.
func wordsOf(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if !unicode.IsLetter(r) || small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		if unicode.IsLetter(r) {
			b.WriteRune(unicode.ToLower(r))
		}
		small = unicode.IsLower(r)
	}
	return strings.Fields(b.String())
}

// refusePayment records every field about money, in the value and all that is in it.
func refusePayment(p *strictyaml.Parser, node *strictyaml.Node, path string) {
	for i, child := range node.Content {
		switch {
		case strictyaml.IsList(node):
			refusePayment(p, child, strictyaml.Index(path, i))
		case strictyaml.IsMapping(node) && i%2 == 1:
			name := node.Content[i-1].Value
			at := strictyaml.Join(path, name)
			if isPayment(name) {
				p.Faultf(node.Content[i-1].Line, at, noPayment)
				continue
			}
			refusePayment(p, child, at)
		}
	}
}
