package cli

// What the table of effects asks of the table of options, for the tests of package options_test.
var (
	OptionGrammar = productGrammar
	Short         = short
	Objects       = objectNames
	CPUBinds      = cpuBindNames
)

// Row is how an option is written, and the words that it takes, if those are all.
type Row struct {
	Names string
	Words []string
}

// Table is a row for each option, in the order of the grammar.
func Table() (rows []Row) {
	for _, k := range options() {
		rows = append(rows, Row{k.names, k.words})
	}
	return rows
}
