// What Tint says about WGSL files: one line a file, "ok FILE" or "error FILE: MESSAGE". Dawn's null backend needs no GPU.
import { create } from 'webgpu';
import { readFileSync } from 'node:fs';

globalThis.gpu = create(['backend=null', 'enable-dawn-features=allow_unsafe_apis']); // kept: Dawn crashes when this object is collected
const adapter = await gpu.requestAdapter();
const wanted = ['shader-f16', 'subgroups', 'chromium-experimental-subgroup-matrix'].filter(f => adapter.features.has(f));
const device = await adapter.requestDevice({ requiredFeatures: wanted });
for (const file of process.argv.slice(2)) {
	device.pushErrorScope('validation');
	const module = device.createShaderModule({ code: readFileSync(file, 'utf8') });
	const messages = (await module.getCompilationInfo()).messages.filter(m => m.type === 'error');
	const refused = await device.popErrorScope();
	const first = messages[0];
	if (refused || first)
		console.log(`error ${file}: ${first ? `${first.lineNum}:${first.linePos}: ${first.message}` : refused.message}`.split('\n')[0]);
	else
		console.log(`ok ${file}`);
}
process.exit(0); // Dawn keeps the process alive
