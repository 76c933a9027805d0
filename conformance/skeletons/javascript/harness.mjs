// A harness for the conformance kit, in both modes:
//     node harness.mjs read IN OUT           read the trace IN, write what was read to OUT as canonical JSON
//     node harness.mjs write SCENARIO OUT    write the trace that the scenario asks for to OUT
//     node harness.mjs serve                 do the same on request, one JSON object on each line
// The kit's PROTOCOL.md and CANONICAL.md describe the arguments, files and lines.
import {readFileSync, statSync, writeFileSync} from 'node:fs';
import {createInterface} from 'node:readline';

// The shortest trace of FXT, the case fxt/valid/magic, which passes as an example of what a harness does.
const MAGIC = '1000044678541600';
const RESULT = {format: 'fxt', records: [{type: 'magic'}]};

class Refused extends Error {}
class Unsupported extends Error {}

const HELLO = {protocol: 1, name: 'my testee', version: '', formats: {fxt: ['read', 'write']}};

function read(input, output) {
  // Call your reader here.  Throw Refused if it says that the trace is not valid.
  if (statSync(input).isFile() && readFileSync(input, 'hex') === MAGIC) return writeFileSync(output, JSON.stringify(RESULT));
  throw new Unsupported('reading is not implemented');
}

function write(scenario, output) {
  // Call your writer here.  Throw Refused if the format cannot express the scenario.
  throw new Unsupported('writing is not implemented');
}

// Do one operation.  Any other exception means that the testee crashed.
function perform(operation, input, output) {
  try {
    ({read, write})[operation](input, output);
    return {status: 'ok'};
  } catch (error) {
    if (error instanceof Refused) return {status: 'refused', reason: error.message};
    if (error instanceof Unsupported) return {status: 'unsupported', reason: error.message};
    throw error;
  }
}

async function serve() {
  for await (const line of createInterface({input: process.stdin})) {
    const request = JSON.parse(line);
    const answer = request.op === 'hello' ? HELLO : perform(request.op, request.in, request.out);
    process.stdout.write(JSON.stringify({id: request.id, ...answer}) + '\n');
  }
}

try {
  const [operation, input, output] = process.argv.slice(2);
  if (operation === 'serve') {
    await serve();
  } else if (['read', 'write'].includes(operation) && output !== undefined) {
    const {status, reason} = perform(operation, input, output);
    if (reason) console.error(reason);
    process.exitCode = {ok: 0, refused: 1, unsupported: 77}[status];
  } else {
    console.error('usage: harness.mjs read IN OUT | write SCENARIO OUT | serve');
    process.exitCode = 2;
  }
} catch (error) { // without this, Node.js would end with status 1, which means refused
  console.error(error);
  process.exitCode = 2;
}
