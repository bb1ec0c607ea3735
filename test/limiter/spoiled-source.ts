import { registerHooks } from "node:module";

// Loaded before a test file: one source file is another text from then on, as `SPOILED` says.

const { file, from, to } = JSON.parse(process.env.SPOILED ?? "{}") as Readonly<Record<"file" | "from" | "to", string>>;

registerHooks({
  load: (url, context, next) => {
    const loaded = next(url, context);
    if (!url.endsWith(`/${file}`)) return loaded;
    const text = Buffer.from(loaded.source as Uint8Array).toString();
    if (text.split(from).length !== 2) throw new Error(`"${from}" must stand in ${file} once.`);
    return { ...loaded, source: text.replace(from, to) };
  },
});
