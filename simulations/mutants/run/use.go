package main

import "errors"

// errBare means that there is no mutant in this program.
var errBare = errors.New("this program was built without the overlay that package mutants makes: it has no mutant")

// use switches a mutant on, and what goes with it. In the overlay this file does
// it; here it can not.
func use(name, with string) error {
	if name == "" && with == "" {
		return nil
	}
	return errBare
}
