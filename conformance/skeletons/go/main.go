// A harness for the conformance kit, in exec mode:
//
//	harness read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
//	harness write SCENARIO OUT    write the trace that the scenario asks for to OUT
//
// The kit's PROTOCOL.md and CANONICAL.md describe the arguments and files.
package main

import (
	"errors"
	"fmt"
	"os"
)

// The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does.
const (
	magic  = "\x10\x00\x04\x46\x78\x54\x16\x00"
	result = `{"format": "fxt", "records": [{"type": "magic"}]}`
)

// A testee returns nil, or an error that wraps one of these.  A panic or any other error counts as a crash.
var (
	errRefused     = errors.New("refused")
	errUnsupported = errors.New("unsupported")
)

func readTrace(input, output string) error {
	// Call your reader here.  Wrap errRefused if it says that the trace is not valid.
	trace, err := os.ReadFile(input)
	if err == nil && string(trace) == magic {
		return os.WriteFile(output, []byte(result), 0o666)
	}
	return fmt.Errorf("reading is not implemented: %w", errUnsupported)
}

func writeTrace(scenario, output string) error {
	// Call your writer here.  Wrap errRefused if the format cannot express the scenario.
	return fmt.Errorf("writing is not implemented: %w", errUnsupported)
}

func main() {
	if len(os.Args) != 4 || (os.Args[1] != "read" && os.Args[1] != "write") {
		fmt.Fprintln(os.Stderr, "usage: harness read IN OUT | write SCENARIO OUT")
		os.Exit(2)
	}
	operation := readTrace
	if os.Args[1] == "write" {
		operation = writeTrace
	}
	err := operation(os.Args[2], os.Args[3])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	switch {
	case errors.Is(err, errRefused):
		os.Exit(1)
	case errors.Is(err, errUnsupported):
		os.Exit(77)
	default:
		os.Exit(2)
	}
}
