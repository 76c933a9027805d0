(* A harness for the conformance kit, in exec mode:
       harness read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
       harness write SCENARIO OUT    write the trace that the scenario asks for to OUT
   The kit's PROTOCOL.md and CANONICAL.md describe the arguments and files. *)

(* The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does. *)
let magic = "\x10\x00\x04\x46\x78\x54\x16\x00"
let result = {|{"format": "fxt", "records": [{"type": "magic"}]}|}

exception Refused of string
exception Unsupported of string

let content (path : string) : string =
  let file = open_in_bin path in
  let text = really_input_string file (in_channel_length file) in
  close_in file;
  text

let read (input : string) (output : string) : unit =
  (* Call your reader here.  Raise Refused if it says that the trace is not valid. *)
  if Sys.is_directory input || content input <> magic then raise (Unsupported "reading is not implemented");
  let file = open_out_bin output in
  output_string file result;
  close_out file

let write (_scenario : string) (_output : string) : unit =
  (* Call your writer here.  Raise Refused if the format cannot express the scenario. *)
  raise (Unsupported "writing is not implemented")

(* Any other exception ends the program with status 2, which counts as a crash. *)
let perform operation input output =
  match operation input output with
  | () -> exit 0
  | exception Refused reason -> prerr_endline reason; exit 1
  | exception Unsupported reason -> prerr_endline reason; exit 77

let () =
  match Sys.argv with
  | [| _; "read"; input; output |] -> perform read input output
  | [| _; "write"; scenario; output |] -> perform write scenario output
  | _ -> prerr_endline "usage: harness read IN OUT | write SCENARIO OUT"; exit 2
