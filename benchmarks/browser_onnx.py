"""The way that the page "Move the needle" does not go: onnxruntime-web in place of its own code.

    pip install onnx==1.23.2
    python benchmarks/browser_onnx.py

The same model at float32, from the same weights: a graph without them is written with the `onnx`
package, and the browser fills them in from the shipped file. Needs npm, and fetches 25 MB once.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.browser import chromium, served
from book import browser, vendor
from rulerlib import models
from rulerlib.playground import ROWS, Playground, Setting

RUNTIME = vendor.Package(
    "onnxruntime-web",
    "1.30.0",
    "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
    "ort",
    ("package/dist/ort.wasm.min.mjs", "package/dist/ort-wasm-simd-threaded.mjs",
     "package/dist/ort-wasm-simd-threaded.wasm"),
    strip="package/dist/",
)  # fmt: skip

# Prompts are read in parts of this many tokens: attention over everything at once is slower.
CHUNK = 256

_WORKER = """
import * as ort from "./vendor/ort/ort.wasm.min.mjs";
ort.env.wasm.wasmPaths = new URL("./vendor/ort/", import.meta.url).href;
ort.env.wasm.numThreads = 1;
const get = async (name) => (await fetch(name)).arrayBuffer();
const tensor = (data, shape) => new ort.Tensor("float32", data, shape);
self.onmessage = async ({ data: { prompts, chunk, layers, heads, size, base, end, most } }) => {
  let begin = performance.now();
  const [graph, file] = await Promise.all([get("lille.onnx"), get("model.safetensors")]);
  const brief = new Uint16Array(file.slice(8 + Number(new DataView(file).getBigUint64(0, true))));
  const bits = new Uint32Array(brief.length);
  for (let i = 0; i < bits.length; i++) bits[i] = brief[i] << 16;
  const externalData = [{ path: "weights", data: new Uint8Array(bits.buffer) }];
  const session = await ort.InferenceSession.create(new Uint8Array(graph), { externalData });
  const load = performance.now() - begin;
  const kept = [];
  for (let layer = 0; layer < layers; layer++) kept.push(`k${layer}`, `v${layer}`);
  const half = size / 2;
  const read = async (past, start, ids) => {
    const end = start + ids.length;
    const cos = new Float32Array(ids.length * size), sin = new Float32Array(ids.length * size);
    const mask = new Float32Array(ids.length * end);
    for (let i = 0; i < ids.length; i++) {
      for (let j = 0; j < size; j++) {
        const angle = (start + i) * base ** (-(j % half) / half);
        cos[i * size + j] = Math.cos(angle);
        sin[i * size + j] = Math.sin(angle);
      }
      mask.fill(-1e9, i * end + start + i + 1, (i + 1) * end);
    }
    const made = await session.run({ ...past, mask: tensor(mask, [ids.length, end]),
      cos: tensor(cos, [ids.length, size]), sin: tensor(sin, [ids.length, size]),
      ids: new ort.Tensor("int64", BigInt64Array.from(ids.map(BigInt)), [ids.length]) });
    for (const name of kept) past[`past_${name}`] = made[`present_${name}`];
    return made.logits.data.reduce((best, value, id, all) => value > all[best] ? id : best, 0);
  };
  const replies = [];
  for (const ids of prompts) {
    begin = performance.now();
    const past = {};
    const empty = tensor(new Float32Array(0), [1, heads, 0, size]);
    for (const name of kept) past[`past_${name}`] = empty;
    let at = 0, next;
    for (; at < ids.length; at += chunk) next = await read(past, at, ids.slice(at, at + chunk));
    const said = [next];
    for (at = ids.length; next !== end && said.length < most; at++) {
      next = await read(past, at, [next]);
      said.push(next);
    }
    replies.push({ said, seconds: (performance.now() - begin) / 1000 });
  }
  self.postMessage({ load: load / 1000, replies });
};
"""

_ASK = """([address, message]) => new Promise((resolve, reject) => {
    const worker = new Worker(address, { type: "module" });
    worker.onerror = (event) => reject(new Error(event.message));
    worker.onmessage = ({ data }) => resolve(data);
    worker.postMessage(message);
})"""


def graph(config: dict[str, Any], weights: Path) -> bytes:
    """Return the model as an ONNX graph, with its weights left in their file, in their order."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    with weights.open("rb") as file:
        contents = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    heads, size, hidden = (
        config[name] for name in ("num_attention_heads", "head_dim", "hidden_size")
    )
    nodes: list[Any] = []
    constants: dict[str, Any] = {
        "rows": numpy_helper.from_array(np.array([-1, hidden]), "rows"),
        "split": numpy_helper.from_array(np.array([1, -1, heads, size]), "split"),
        "scale": numpy_helper.from_array(np.array(size**-0.5, dtype=np.float32), "scale"),
        "last": numpy_helper.from_array(np.array([-1]), "last"),
    }

    def node(kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"n{len(nodes)}_{number}" for number in range(outputs)]
        nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(name: str) -> str:
        begin, end = contents[name]["data_offsets"]
        made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=contents[name]["shape"])
        made.data_location = TensorProto.EXTERNAL
        # bfloat16 in the file, twice as wide in the browser.
        for key, value in (("location", "weights"), ("offset", 2 * begin),
                           ("length", 2 * (end - begin))):  # fmt: skip
            made.external_data.add(key=key, value=str(value))
        constants[name] = made
        return name

    def linear(x: str, name: str) -> str:
        bias = [weight(f"{name}.bias")] if f"{name}.bias" in contents else []
        return str(node("Gemm", x, weight(f"{name}.weight"), *bias, transB=1))

    def normal(x: str, name: str) -> str:
        return str(
            node("SimplifiedLayerNormalization", x, weight(name), epsilon=config["rms_norm_eps"])
        )

    def split(x: str) -> str:
        return str(node("Transpose", node("Reshape", x, "split"), perm=[0, 2, 1, 3]))

    def turned(x: str) -> str:
        first, second = node("Split", x, outputs=2, axis=-1, num_outputs=2)
        other = node("Concat", node("Neg", second), first, axis=-1)
        return str(node("Add", node("Mul", x, "cos"), node("Mul", other, "sin")))

    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])]
    floats = {"cos": ["n", size], "sin": ["n", size], "mask": ["n", "all"]}
    outputs = {"logits": [1, config["vocab_size"]]}
    x = node("Gather", weight("model.embed_tokens.weight"), "ids")
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        y = normal(x, f"{name}input_layernorm.weight")
        q, k, v = (split(linear(y, f"{name}self_attn.{part}_proj")) for part in "qkv")
        for part, new in (("k", turned(k)), ("v", v)):
            floats[f"past_{part}{layer}"] = [1, heads, "past", size]
            outputs[f"present_{part}{layer}"] = [1, heads, "all", size]
            joined = helper.make_node(
                "Concat", [f"past_{part}{layer}", new], [f"present_{part}{layer}"], axis=2
            )
            nodes.append(joined)
        keys = node("Transpose", f"present_k{layer}", perm=[0, 1, 3, 2])
        scores = node("MatMul", node("Mul", turned(q), "scale"), keys)
        seen = node("Softmax", node("Add", scores, "mask"), axis=-1)
        mixed = node("Transpose", node("MatMul", seen, f"present_v{layer}"), perm=[0, 2, 1, 3])
        x = node("Add", x, linear(node("Reshape", mixed, "rows"), f"{name}self_attn.o_proj"))
        y = normal(x, f"{name}post_attention_layernorm.weight")
        gate = linear(y, f"{name}mlp.gate_proj")
        active = node("Mul", gate, node("Sigmoid", gate))
        up = node("Mul", active, linear(y, f"{name}mlp.up_proj"))
        x = node("Add", x, linear(up, f"{name}mlp.down_proj"))
    x = normal(node("Gather", x, "last"), "model.norm.weight")
    nodes.append(helper.make_node("Gemm", [x, "model.embed_tokens.weight"], ["logits"], transB=1))
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in floats.items()]  # fmt: skip
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in outputs.items()]  # fmt: skip
    made = helper.make_model(
        helper.make_graph(nodes, "lille", inputs, results, list(constants.values())),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )
    return bytes(made.SerializeToString())


def main() -> None:
    config = json.loads((browser.LILLE / "config.json").read_text(encoding="utf-8"))
    play = Playground(models.load("lille", dtype="float32"), length=browser.LENGTHS["most"])
    asked = [
        Setting(language=code, length=length, depth=depth)
        for code in ("da", "en")
        for length in browser.COLUMNS
        for depth in ROWS[::3]
    ]
    tokenizer = play.model.tokenizer
    prompts = [tokenizer.encode(play.prompt_of(setting).fed, special=False) for setting in asked]
    with tempfile.TemporaryDirectory() as place, chromium() as started:
        site = Path(place)
        vendor.fetch(site / "vendor", [RUNTIME])
        shutil.copyfile(browser.LILLE / "model.safetensors", site / "model.safetensors")
        (site / "lille.onnx").write_bytes(graph(config, site / "model.safetensors"))
        (site / "worker.js").write_text(_WORKER)
        (site / "index.html").write_text("<!doctype html><title>benchmark</title>")
        shipped = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
        with served(site) as address:
            page = started.new_page()
            page.set_default_timeout(3_600_000)
            page.goto(f"{address}/index.html")
            message = {
                "prompts": prompts, "chunk": CHUNK, "layers": config["num_hidden_layers"],
                "heads": config["num_attention_heads"], "size": config["head_dim"],
                "base": config["rope_theta"], "end": config["eos_token_id"], "most": 128,
            }  # fmt: skip
            said = page.evaluate(_ASK, [f"{address}/worker.js", message])
    same = sum(
        play.ask(setting).prediction.pred == tokenizer.decode(reply["said"][:-1])
        for setting, reply in zip(asked, said["replies"], strict=True)
    )
    print(f"{shipped / 1e6:.1f} MB, loaded in {said['load']:.2f} s")
    print(f"prompts: {len(asked)}, the same answer: {same}")
    print("| tokens | prompts | seconds, the fastest | the median |\n|---:|---:|---:|---:|")
    for length in browser.COLUMNS:
        seconds = [reply["seconds"] for setting, reply in zip(asked, said["replies"], strict=True)
                   if setting.length == length]  # fmt: skip
        print(f"| {length} | {len(seconds)} | {min(seconds):.2f} |"
              f" {statistics.median(seconds):.2f} |")  # fmt: skip


if __name__ == "__main__":
    main()
