// Imports a file with the importer of speedscope, and prints what it found as JSON.
//
//     node driver.js RELEASE FILE
//
// RELEASE is the folder dist/release of the npm package speedscope, whose only script is the whole web page. The script
// runs here without a browser: what it expects of one is a stand-in, and drawing the page fails. By then its importer
// is there, and a line that is put before its first statement gives access to it.

"use strict";
const fs = require("fs");
const path = require("path");

const [release, file] = process.argv.slice(2);
const FIRST = '"use strict";(()=>{';
const script = fs.readFileSync(path.join(release, fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name))), "utf8");
const importer = /async function ([\w$]+)\(\w+,\w+\)\{return\(await [\w$]+\)\.importProfilesFromArrayBuffer\(/.exec(script);
if (!script.startsWith(FIRST) || !importer) throw new Error("the script of speedscope is not as expected");

function standIn() {
  const get = (_, key) => (key === Symbol.toPrimitive ? () => "" : standIn());
  return new Proxy(function () {}, { get, apply: standIn, construct: standIn, set: () => true });
}
globalThis.window = globalThis;
globalThis.document = standIn();
globalThis.location = { hash: "", protocol: "file:", href: "file:///" };
globalThis.addEventListener = () => {};
globalThis.matchMedia = standIn();
const said = [];
console.log = (text) => said.push(String(text));
try {
  (0, eval)(FIRST + `globalThis.importProfile=(name,data)=>${importer[1]}(name,data);` + script.slice(FIRST.length));
} catch {
  // The page cannot be drawn.
}

function described(profile) {
  const calls = [];
  profile.forEachCall(
    (node, at) => calls.push(["O", node.frame.name, at]),
    (node, at) => calls.push(["C", node.frame.name, at])
  );
  const stacks = {};
  function walk(node, names) {
    for (const child of node.children) {
      const stack = [...names, child.frame.name];
      const key = JSON.stringify(stack);
      if (child.getSelfWeight()) stacks[key] = (stacks[key] || 0) + child.getSelfWeight();
      walk(child, stack);
    }
  }
  walk(profile.getAppendOrderCalltreeRoot(), []);
  const frames = {};
  profile.forEachFrame((frame) => (frames[frame.name] = [frame.file ?? null, frame.line ?? null]));
  return {
    name: profile.getName(), unit: profile.getWeightUnit(), weight: profile.getTotalWeight(), calls, frames,
    stacks: Object.entries(stacks).map(([key, weight]) => [JSON.parse(key), weight]),
  };
}

const data = fs.readFileSync(file);
const bytes = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength);
globalThis.importProfile(path.basename(file), bytes).then(
  (group) => process.stdout.write(JSON.stringify({ said, profiles: group ? group.profiles.map(described) : null })),
  (error) => process.stdout.write(JSON.stringify({ said, error: String(error) }))
);
