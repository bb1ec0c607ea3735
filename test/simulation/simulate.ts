import { parsedArgs, runScript, wholeNumber } from "../../scripts/script.ts";

const USAGE = `npm run simulate -- [--from S] [--seeds N] [--store KIND] [--shrink]
                     plays N worlds (1000), from seed S (1) on, and prints the last steps of each one that breaks the promise
npm run simulate -- --seed K [--store KIND] [--shrink]
                     plays one world and prints every step

--store KIND         memory (default), sqlite, conditional (single-item conditional writes, as on DynamoDB) or shared (the same, on a
                     table that a client like the original writes too);
                     bucket-memory, bucket-sqlite, bucket-conditional: one bucket without an engine
--shrink             shortens the first world that fails: steps that it fails without are left out, and the rest is printed as a
                     story and as JSON, to be kept in test/simulation/stories-found

The exit code is 0 when the promise was kept in every world, and 1 when it was not.
`;

await runScript(USAGE, async (args) => {
  const { values } = parsedArgs({
    args: [...args],
    options: {
      seeds: { type: "string", default: "1000" },
      from: { type: "string", default: "1" },
      seed: { type: "string" },
      store: { type: "string", default: "memory" },
      shrink: { type: "boolean", default: false },
    },
  });
  const asked = {
    seed: values.seed === undefined ? undefined : wholeNumber("--seed", values.seed),
    from: wholeNumber("--from", values.from),
    seeds: wholeNumber("--seeds", values.seeds),
    store: values.store,
    shrink: values.shrink,
  };
  // Loaded only now: help and mistakes are answered at once.
  const { simulateAsked } = await import("./asked.ts");
  return simulateAsked(asked);
});
