(* A harness for the conformance kit, in exec mode:
       harness read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
       harness write SCENARIO OUT    write the trace that the scenario asks for to OUT
   The kit's PROTOCOL.md and CANONICAL.md describe the arguments and files. *)

exception Refused of string
exception Unsupported of string

let read (_input : string) (_output : string) : unit =
  (* Call your reader here.  Raise Refused if it says that the trace is not valid. *)
  raise (Unsupported "reading is not implemented")

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
