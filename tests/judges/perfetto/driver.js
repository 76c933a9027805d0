'use strict';
// Perfetto's trace processor without a browser: requests and replies are JSON objects, one per line.
//
// Usage: node driver.js ENGINE_DIR [optimized]   (a directory with engine_bundle.js and trace_processor.wasm)
// Without the second word the code is compiled once and quickly, never again for speed.
//
// A new trace processor takes 60 ms for its tables before the first record.  So its memory is copied behind the magic
// number of the first trace, and restored for each further one, which is like a new process; other traces, and all
// imports that are timed (optimized), begin with a reset instead.
//
// The Perfetto UI runs its trace processor in a web worker: engine_bundle.js loads the WebAssembly module and then
// exchanges bytes with the page through a message port. This program plays both the browser and the page. It gives
// the bundle the handful of browser features that it asks for, inside a `vm` context, and hands it a port of its own.
// Both directions of the port carry one endless protobuf message, `repeated TraceProcessorRpc msg = 1`.
// Everything behind the port is synchronous: when the engine's `onmessage` returns, its answers have arrived.
//
// Requests (stdin)                           Replies (stdout)
//                                            {ready: true}                    once, after start-up
//   {op: "load", path}                       {done: true, seconds, bytes}     or {error, kind}
//   {op: "query", sql}                       {kinds, cells} for each batch, then {done: true, columns} or {error, kind}
//
// A batch's `kinds` has one letter for each cell, row by row; all but nulls have an entry in `cells`:
//   n null    i 64-bit integer, in decimal    f double, in decimal    s text    x text that is not UTF-8, in hex
//   b blob, in hex
// `kind` is "import", "query" or "crash"; after "crash" the process ends.

const {webcrypto} = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const readline = require('node:readline');
const v8 = require('node:v8');
const vm = require('node:vm');

const MAGIC = Buffer.from('1000044678541600', 'hex');
const CHUNK_BYTES = 8 << 20;  // how much of a trace goes into one request; the engine takes at most 32 MiB
const STDERR_LINES = 20;  // of the engine's own messages, kept to explain a crash
const ENTRY_POINT = 'trace_processor_rpc_init';  // exported by the module; once it has run, requests are welcome

// Numbers from Perfetto's trace_processor.proto.
const METHOD = {APPEND: 1, FINALIZE: 2, QUERY: 3, RESET: 11};
const RPC = {
  SEQUENCE: 1, REQUEST: 2, INVALID_REQUEST: 4, FATAL_ERROR: 5,
  APPEND_DATA: 101, QUERY_ARGS: 103,
  APPEND_RESULT: 201, QUERY_RESULT: 203, FINALIZE_RESULT: 212,
};
const BATCH = {KINDS: 1, INTEGERS: 2, DOUBLES: 3, BLOBS: 4, STRINGS: 5};
const CELL_LETTERS = ['?', 'n', 'i', 'f', 's', 'b'];

// ---------------------------------------------------------------------------------------------- protobuf, by hand

function varint(value) {
  let rest = BigInt(value);
  const bytes = [];
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const varintField = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytesHeader = (field, length) => Buffer.concat([varint((field << 3) | 2), varint(length)]);
const bytesField = (field, bytes) => Buffer.concat([bytesHeader(field, bytes.length), bytes]);

/** Reads the varint at `at`. Returns [value, offset behind it], or null when the bytes end too early. */
function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; at < bytes.length; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
  return null;
}

/** Yields [field number, value]: a BigInt for a varint, the bytes for everything else. */
function* fieldsOf(bytes) {
  for (let at = 0; at < bytes.length;) {
    const [tag, start] = readVarint(bytes, at);
    const wireType = Number(tag & 7n);
    const field = Number(tag >> 3n);
    if (wireType === 0) {
      const [value, end] = readVarint(bytes, start);
      yield [field, value];
      at = end;
      continue;
    }
    let [length, from] = wireType === 2 ? readVarint(bytes, start) : [{1: 8, 5: 4}[wireType], start];
    if (length === undefined) throw new Error(`unexpected protobuf wire type ${wireType}`);
    at = from + Number(length);
    yield [field, bytes.subarray(from, at)];
  }
}

/** The text of one field of a message, or '' when it is absent. */
function textField(message, wanted) {
  for (const [field, value] of fieldsOf(message)) if (field === wanted) return value.toString();
  return '';
}

// ------------------------------------------------------------------------------------------------- query results

/** Splits the engine's NUL-terminated strings. Text that is not UTF-8 comes out as {hex}. */
function splitStrings(bytes) {
  const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
  try {
    return decoder.decode(bytes).split('\0');
  } catch {
    const texts = [];
    for (let at = 0, end; at < bytes.length; at = end + 1) {
      end = bytes.indexOf(0, at);
      if (end < 0) end = bytes.length;
      const text = bytes.subarray(at, end);
      try {
        texts.push(decoder.decode(text));
      } catch {
        texts.push({hex: text.toString('hex')});
      }
    }
    return texts;
  }
}

function integersOf(bytes) {
  const integers = [];
  for (let at = 0, value; at < bytes.length;) {
    [value, at] = readVarint(bytes, at);
    integers.push(BigInt.asIntN(64, value).toString());
  }
  return integers;
}

function doublesOf(bytes) {
  const doubles = [];
  for (let at = 0; at < bytes.length; at += 8) {
    const value = bytes.readDoubleLE(at);
    doubles.push(Object.is(value, -0) ? '-0' : String(value));
  }
  return doubles;
}

/** Turns one CellsBatch message into {kinds, cells}, the values back in row order. */
function decodeBatch(message) {
  let letters = '';
  const values = {i: [], f: [], s: [], b: []};
  for (const [field, value] of fieldsOf(message)) {
    if (field === BATCH.KINDS) letters = Array.from(value, (kind) => CELL_LETTERS[kind] ?? '?').join('');
    else if (field === BATCH.INTEGERS) values.i = integersOf(value);
    else if (field === BATCH.DOUBLES) values.f = doublesOf(value);
    else if (field === BATCH.BLOBS) values.b.push(value.toString('hex'));
    else if (field === BATCH.STRINGS) values.s = splitStrings(value);
  }
  const next = {i: 0, f: 0, s: 0, b: 0};
  const cells = [];
  let kinds = '';
  for (const letter of letters) {
    const value = letter === 'n' ? null : values[letter][next[letter]++];
    const foreign = typeof value === 'object' && value !== null;
    kinds += foreign ? 'x' : letter;
    if (letter !== 'n') cells.push(foreign ? value.hex : value);
  }
  return {kinds, cells};
}

// -------------------------------------------------------------------------------------------- the pretend browser

/** Calls `onReady(memory)` soon after the module's entry point has run, however the bundle makes its instance. */
function watchEntryPoint(WebAssembly, onReady) {
  const {Instance, instantiate} = WebAssembly;
  const watched = (instance) => {
    const entry = instance.exports[ENTRY_POINT];
    if (!entry) return instance;
    const announced = (...args) => {
      const result = entry(...args);
      setImmediate(onReady, instance.exports.memory);
      return result;
    };
    return {exports: {...instance.exports, [ENTRY_POINT]: announced}};
  };
  WebAssembly.Instance = function (module, imports) {
    return watched(new Instance(module, imports));
  };
  WebAssembly.instantiate = async (source, imports) => {
    const result = await instantiate.call(WebAssembly, source, imports);
    return result instanceof Instance ? watched(result) : {module: result.module, instance: watched(result.instance)};
  };
}

/** Makes the context in which the bundle believes itself a web worker. */
function createWorkerContext(directory, log) {
  // The bundle asks for its own files, by name; nothing is ever fetched from anywhere else.
  const fileBytes = (url) => Uint8Array.from(fs.readFileSync(path.join(directory, path.basename(String(url))))).buffer;
  class FileRequest {
    open(_method, url) { this.url = url; }
    send() { this.response = fileBytes(this.url); }
  }
  const quiet = () => {};
  const context = vm.createContext({
    URL, TextDecoder, TextEncoder, setTimeout, clearTimeout, performance, queueMicrotask,
    crypto: webcrypto,
    console: {log: quiet, info: quiet, debug: quiet, warn: log, error: log},
    WorkerGlobalScope: function () {},  // by this newer bundles see that they are in a worker,
    importScripts: quiet,  // and by this older ones
    location: {href: 'http://engine.invalid/engine_bundle.js'},
    XMLHttpRequest: FileRequest,
    fetch: async (url) => ({ok: true, status: 200, url, arrayBuffer: async () => fileBytes(url)}),
  });
  context.self = context;
  return context;
}

// ----------------------------------------------------------------------------------------------------- the engine

/** A failure with the word that the other side sorts it by: import, query or crash. */
class Failure extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

function openTrace(file) {
  try {
    return fs.openSync(file, 'r');
  } catch (error) {
    throw new Failure('import', error.message);
  }
}

class Engine {
  constructor(directory, optimized) {
    this.sequence = 0;
    this.used = false;  // has it been given any trace yet?
    this.optimized = optimized;
    this.begun = null;  // the state behind the magic number: {bytes, sequence}
    this.pending = Buffer.alloc(0);  // the start of a reply whose end has not arrived
    this.messages = [];
    this.onReply = () => {};
    this.context = createWorkerContext(directory, (...words) => this.log(words));
    // The bundle insists on byte arrays of its own realm.
    this.Bytes = vm.runInContext('Uint8Array', this.context);
    this.port = {postMessage: (bytes) => this.receive(Buffer.from(bytes))};
    this.ready = new Promise((resolve) => {
      watchEntryPoint(vm.runInContext('WebAssembly', this.context), (memory) => {
        this.memory = memory;
        resolve();
      });
    });
    vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), this.context);
    this.context.onmessage({data: this.port});
  }

  /** Keeps what the engine says, without its progress bar and the warnings that every start brings. */
  log(words) {
    const lines = words.map(String).join(' ').split(/[\r\n]+/);
    this.messages.push(...lines.filter((line) => line.trim() && !/Loading trace|unsupported syscall/.test(line)));
    this.messages.splice(0, this.messages.length - STDERR_LINES);
  }

  /** Makes a request whose last `room` bytes the caller fills in. */
  request(method, argumentHeader = Buffer.alloc(0), room = 0) {
    const start = Buffer.concat([
      varintField(RPC.SEQUENCE, this.sequence++), varintField(RPC.REQUEST, method), argumentHeader,
    ]);
    const head = Buffer.concat([bytesHeader(1, start.length + room), start]);
    const whole = new this.Bytes(head.length + room);
    whole.set(head);
    return {whole, body: whole.subarray(head.length)};
  }

  /** Sends one request; `onReply(field, value)` sees each field of the answers. */
  send(whole, onReply = () => {}) {
    this.onReply = onReply;
    try {
      this.port.onmessage({data: whole});
    } catch (error) {
      const reason = String(error?.message ?? error).split('\n')[0];
      throw new Failure('crash', [`the engine stopped: ${reason}`, ...this.messages].join('\n'));
    }
  }

  receive(bytes) {
    this.pending = this.pending.length ? Buffer.concat([this.pending, bytes]) : bytes;
    for (;;) {
      const size = readVarint(this.pending, 1);  // behind the one-byte tag of field 1
      if (!size) return;
      const end = size[1] + Number(size[0]);
      if (end > this.pending.length) return;
      const reply = this.pending.subarray(size[1], end);
      this.pending = this.pending.subarray(end);
      for (const [field, value] of fieldsOf(reply)) {
        if (field === RPC.FATAL_ERROR) throw new Error(value.toString());
        if (field === RPC.INVALID_REQUEST) throw new Error(`the engine does not know request ${value}`);
        this.onReply(field, value);
      }
    }
  }

  /** Removes the trace before. */
  reset() {
    if (this.used) this.send(this.request(METHOD.RESET).whole);
    this.used = true;
  }

  /** Brings the engine into the state behind the magic number. */
  begin() {
    if (this.begun) {
      const bytes = new Uint8Array(this.memory.buffer);
      bytes.set(this.begun.bytes);
      bytes.fill(0, this.begun.bytes.length);  // what it has grown by
      this.sequence = this.begun.sequence;
      return;
    }
    this.reset();
    const {whole, body} = this.request(METHOD.APPEND, bytesHeader(RPC.APPEND_DATA, MAGIC.length), MAGIC.length);
    body.set(MAGIC);
    this.send(whole);
    this.begun = {bytes: new Uint8Array(this.memory.buffer).slice(), sequence: this.sequence};
  }

  /** Imports a trace file, replacing the one before. Returns the seconds that the import itself took. */
  load(file) {
    this.messages = [];
    const errors = [];
    const noteError = (field, value) => {
      const position = {[RPC.APPEND_RESULT]: 2, [RPC.FINALIZE_RESULT]: 1}[field];
      const text = position ? textField(value, position) : '';
      if (text) errors.push(text);
    };
    const descriptor = openTrace(file);
    const total = fs.fstatSync(descriptor).size;
    let started;
    try {
      const magic = Buffer.alloc(MAGIC.length);
      fs.readSync(descriptor, magic, 0, magic.length, 0);
      const hasBegun = !this.optimized && magic.equals(MAGIC);
      if (hasBegun) this.begin();
      else this.reset();
      started = performance.now();
      if (total === 0) throw new Failure('import', 'the file is empty');  // the engine itself would not mind
      for (let at = hasBegun ? magic.length : 0; at < total && !errors.length;) {
        const room = Math.min(CHUNK_BYTES, total - at);
        const {whole, body} = this.request(METHOD.APPEND, bytesHeader(RPC.APPEND_DATA, room), room);
        if (fs.readSync(descriptor, body, 0, room, at) !== room) throw new Failure('import', 'the file shrank');
        this.send(whole, noteError);
        at += room;
      }
      this.send(this.request(METHOD.FINALIZE).whole, noteError);
    } finally {
      fs.closeSync(descriptor);
    }
    const seconds = (performance.now() - started) / 1000;
    if (errors.length) throw new Failure('import', errors[0]);
    return {seconds, bytes: total};
  }

  /** Runs one statement; `onBatch` gets the cells as they come. Returns the column names. */
  query(sql, onBatch) {
    const columns = [];
    let error = '';
    const args = bytesField(RPC.QUERY_ARGS, bytesField(1, Buffer.from(sql)));
    this.send(this.request(METHOD.QUERY, args).whole, (field, value) => {
      if (field !== RPC.QUERY_RESULT) return;
      for (const [part, content] of fieldsOf(value)) {
        if (part === 1) columns.push(content.toString());
        else if (part === 2) error = content.toString() || error;
        else if (part === 3) onBatch(decodeBatch(content));
      }
    });
    if (error) throw new Failure('query', error);
    return columns;
  }
}

// ------------------------------------------------------------------------------------------------- lines in and out

function reply(object) {
  const line = Buffer.from(JSON.stringify(object) + '\n');
  for (let at = 0; at < line.length;) at += fs.writeSync(1, line, at);
}

function replyFailure(error) {
  const kind = error instanceof Failure ? error.kind : 'crash';
  reply({error: error?.message ?? String(error), kind});
  if (kind === 'crash') process.exit(1);
}

function answer(engine, request) {
  if (request.op === 'load') reply({done: true, ...engine.load(request.path)});
  else if (request.op === 'query') reply({done: true, columns: engine.query(request.sql, reply)});
  else throw new Failure('query', `unknown request ${request.op}`);
}

async function main() {
  const optimized = process.argv[3] === 'optimized';
  if (!optimized) v8.setFlagsFromString('--liftoff-only');
  const engine = new Engine(process.argv[2], optimized);
  await engine.ready;
  ready = true;
  reply({ready});
  for await (const line of readline.createInterface({input: process.stdin, crlfDelay: Infinity})) {
    try {
      answer(engine, JSON.parse(line));
    } catch (error) {
      replyFailure(error);
    }
  }
}

let ready = false;
process.on('beforeExit', () => {
  if (!ready) replyFailure(new Error('the engine never became ready'));
});
process.on('unhandledRejection', replyFailure);
process.on('uncaughtException', replyFailure);
main().catch(replyFailure);
