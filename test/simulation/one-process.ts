import type { Connection, Connector, Manner } from "./connection.ts";

/** Whoever connects here shares one way to the store: several limiters of one process. */
export function oneProcess(connector: Connector): Connector {
  let shared: { readonly manner: Manner; connection?: Connection } | undefined;
  const heard: ((told: string) => void)[] = [];
  return {
    draw: (random) => {
      shared ??= { manner: connector.draw(random) };
      return shared.manner;
    },
    connect: (id, manner, around, onFault) => {
      heard.push(onFault);
      const own = shared ?? { manner };
      own.connection ??= connector.connect(id, manner, around, (told) => {
        for (const hear of heard) hear(told);
      });
      return own.connection;
    },
  };
}
