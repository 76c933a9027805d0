// A reader of the Fuchsia trace format, written from its specification, as an example of a harness in both modes:
//     fxtio conformance run --mode serve --format fxt -- node fxt_reader.mjs
// It is strict: it refuses a trace with a record or an argument whose content does not fit its size.
import {readFileSync, writeFileSync} from 'node:fs';
import {createInterface} from 'node:readline';

// Each record by its type and subtype: its name, then its fields in the order of the body. A field has a letter and
// often bits of the header: b bits, w word, T time, s string ref, t thread ref, p process ref, a arguments, x text and
// y bytes with their length in the header, Y bytes behind a word with their length, f words, h a second header.
const EVENT = 'timestamp=T thread=t24-31 category=s32-47 name=s48-63 arguments=a20-23';
const PROFILER = 'timestamp=T thread=t20-27';
const RECORDS = {
  '0/1': 'provider-info provider_id=b20-51 name=x52-59',
  '0/2': 'provider-section provider_id=b20-51',
  '0/3': 'provider-event provider_id=b20-51 event_id=b52-55',
  '0/4': 'magic',
  '1/0': 'initialization ticks_per_second=w',
  '2/0': 'string index=b16-30 value=x32-46',
  '3/0': 'thread index=b16-23 process=w thread=w',
  '4/0': `instant ${EVENT}`,
  '4/1': `counter ${EVENT} counter_id=w`,
  '4/2': `duration-begin ${EVENT}`,
  '4/3': `duration-end ${EVENT}`,
  '4/4': `duration-complete ${EVENT} end_time=w`,
  '4/5': `async-begin ${EVENT} async_correlation_id=w`,
  '4/6': `async-instant ${EVENT} async_correlation_id=w`,
  '4/7': `async-end ${EVENT} async_correlation_id=w`,
  '4/8': `flow-begin ${EVENT} flow_correlation_id=w`,
  '4/9': `flow-step ${EVENT} flow_correlation_id=w`,
  '4/10': `flow-end ${EVENT} flow_correlation_id=w`,
  '5/0': 'blob name=s16-31 blob_type=b48-55 payload=y32-46',
  '6/0': 'userspace-object pointer=w process=p16-23 name=s24-39 arguments=a40-43',
  '7/0': 'kernel-object object_type=b16-23 koid=w name=s24-39 arguments=a40-43',
  '8/0': 'legacy-context-switch cpu=b16-23 outgoing_thread_state=b24-27 timestamp=T outgoing_thread=t28-35 ' +
    'incoming_thread=t36-43 outgoing_thread_priority=b44-51 incoming_thread_priority=b52-59',
  '8/1': 'context-switch cpu=b20-35 outgoing_thread_state=b36-39 timestamp=T outgoing_thread=w incoming_thread=w ' +
    'arguments=a16-19',
  '8/2': 'thread-wakeup cpu=b20-35 timestamp=T waking_thread=w arguments=a16-19',
  '9/0': 'log timestamp=T thread=t32-39 message=x16-30',
  '10/0': `module module_id=b28-43 ${PROFILER} name=x44-51 build_id=y52-59`,
  '10/1': `mmap module_id=b28-43 flags=b44-46 ${PROFILER} start_address=w address_range=w vaddr=w`,
  '10/2': `backtrace ${PROFILER} backtrace_data=f28-35`,
  '15/0': 'large-blob-with-metadata h category=s0-15 name=s16-31 timestamp=T thread=t36-43 arguments=a32-35 payload=Y',
  '15/16': 'large-blob-no-metadata h category=s0-15 name=s16-31 payload=Y',
};
const SUBTYPE = {0: [16, 19], 4: [16, 19], 8: [60, 63], 10: [16, 19], 15: [36, 43]}; // the bits that have it (of 15: both types)
const ARGUMENTS = ['null', 'int32=i32-63', 'uint32=b32-63', 'int64=l', 'uint64=w', 'double=d', 'string=s32-47',
  'pointer=w', 'koid=w', 'bool=o32-32', 'blob=y32-63'];
const NO_PROVIDER = ['magic', 'provider-info', 'provider-section', 'provider-event'];
const MAGIC = 0x0016547846040010n;
class Refused extends Error {}
const utf8 = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});
const bits = (word, [first, last]) => Number(BigInt.asUintN(last - first + 1, word >> BigInt(first)));

class Reader {
  constructor(data) {
    const magic = data.length < 8 ? -1 : [data.readBigUInt64LE(), data.readBigUInt64BE()].indexOf(MAGIC);
    if (magic < 0) throw new Refused('there is no magic number');
    Object.assign(this, {data, little: magic === 0, at: 0, end: data.length, provider: null, tables: {}});
  }

  bytes(length) {
    const start = this.at;
    this.at += Math.ceil(length / 8) * 8;
    if (this.at > this.end) throw new Refused(`the content of a record goes beyond its end at byte ${this.end}`);
    return this.data.subarray(start, start + length);
  }

  word() { const raw = this.bytes(8); return this.little ? raw.readBigUInt64LE() : raw.readBigUInt64BE(); }
  // Read a record or an argument: `read` gets its header, and what it does not read is skipped.
  sized(width, read) {
    const start = this.at, outer = this.end, header = this.word();
    const size = 8 * bits(header, [4, bits(header, [0, 3]) === 15 ? width : 15]);
    if (size === 0 || start + size > outer) throw new Refused(`the size at byte ${start} is wrong`);
    this.end = start + size;
    const result = read(header);
    [this.at, this.end] = [start + size, outer];
    return result;
  }

  trace() {
    const records = [];
    while (this.at < this.end) records.push(this.sized(35, (header) => this.record(header)));
    return records.filter((record) => record && record.index !== '0');
  }

  record(header) {
    const type = bits(header, [0, 3]), subtype = SUBTYPE[type] ? bits(header, SUBTYPE[type]) : 0;
    const [name, ...fields] = (RECORDS[`${type}/${subtype}`] ?? '').split(' ');
    if (!name || (name === 'magic' && header !== MAGIC)) return undefined;
    const record = {type: name, ...(NO_PROVIDER.includes(name) ? {} : {provider: this.provider})};
    for (const field of fields) {
      const [key, kind] = field.split('=');
      if (field === 'h') header = this.word(); else record[key] = this.value(kind, header);
      if (kind === 'T') record.rate = this.table.rate;
    }
    if (name === 'provider-info' || name === 'provider-section') this.provider = record.provider_id;
    if (name === 'string') this.table.strings[record.index] = record.value;
    if (name === 'thread') this.table.threads[record.index] = {process: record.process, thread: record.thread};
    if (name === 'initialization') this.table.rate = record.ticks_per_second;
    const rest = (...keys) => Object.fromEntries(keys.map((key) => [key, String(this.word())]));
    if (name === 'initialization' && this.end - this.at >= 16) record.extension = rest('base_ticks', 'wall_clock');
    if (name === 'instant' && this.end > this.at) record.extension = rest('scope');
    return record;
  }

  get table() { return this.tables[this.provider] ??= {strings: [], threads: [], rate: '1000000000'}; }

  value(kind, header) {
    const range = kind.slice(1).split('-').map(Number), number = kind.length > 1 ? bits(header, range) : 0;
    switch (kind[0]) {
      case 'b': return String(number);
      case 'i': return String(BigInt.asIntN(32, BigInt(number)));
      case 'o': return number === 1;
      case 'w': case 'T': return String(this.word());
      case 'l': return String(BigInt.asIntN(64, this.word()));
      case 'd': return `f64:${this.word().toString(16).padStart(16, '0')}`;
      case 'x': return this.text(number);
      case 'y': return this.bytes(number).toString('hex');
      case 'Y': return this.bytes(Number(this.word())).toString('hex');
      case 'f': return this.bytes(8 * number).toString('hex');
      case 's': return number & 0x8000 ? {inline: true, ...this.text(number & 0x7fff)}
          : {slot: String(number), ...(number ? this.table.strings[number] ?? {text: null} : {text: ''})};
      case 't': return number === 0 ? {inline: true, process: String(this.word()), thread: String(this.word())}
          : {slot: String(number), ...this.table.threads[number] ?? {process: null, thread: null}};
      case 'p': return number === 0 ? {inline: true, process: String(this.word())}
          : {slot: String(number), process: this.table.threads[number]?.process ?? null};
      case 'a': return Array.from({length: number}, () => this.sized(15, (word) => this.argument(word))).filter(Boolean);
    }
  }

  text(length) {
    const raw = this.bytes(length);
    try { return {text: utf8.decode(raw)}; } catch { return {hex: raw.toString('hex')}; }
  }

  argument(header) {
    const name = this.value('s16-31', header), [type, kind] = (ARGUMENTS[bits(header, [0, 3])] ?? '').split('=');
    return type && {type, name, ...(kind ? {value: this.value(kind, header)} : {})};
  }
}

function perform(operation, input, output) {
  if (operation !== 'read') return {status: 'unsupported', reason: `${operation} is not supported`};
  try {
    writeFileSync(output, JSON.stringify({format: 'fxt', records: new Reader(readFileSync(input)).trace()}));
    return {status: 'ok'};
  } catch (error) {
    if (error instanceof Refused) return {status: 'refused', reason: error.message};
    throw error;
  }
}

process.on('uncaughtException', (error) => { console.error(error); process.exit(2); });
if (process.argv[2] === 'serve') {
  const hello = {protocol: 1, name: 'JavaScript reader of the kit', formats: {fxt: ['read']}};
  for await (const line of createInterface({input: process.stdin})) {
    const {id, op, in: input, out: output} = JSON.parse(line);
    console.log(JSON.stringify({id, ...(op === 'hello' ? hello : perform(op, input, output))}));
  }
} else {
  const {status, reason = ''} = perform(...process.argv.slice(2));
  console.error(reason);
  process.exitCode = {ok: 0, refused: 1, unsupported: 77}[status];
}
