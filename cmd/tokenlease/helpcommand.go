package main

import "github.com/spf13/cobra"

// helpCommand prints the help of another command. That of cobra prints the root's, and
// succeeds, for a command that there is not.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Print the help of a command",
		Args:  cobra.ArbitraryArgs,
		// The help of a command needs no settings.
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []string
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, child := range of.Commands() {
					if child.IsAvailableCommand() {
						names = append(names, child.Name()+"\t"+child.Short)
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return usageError{err}
			case len(rest) > 0:
				return group(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}
