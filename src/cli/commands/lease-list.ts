import { type CommandFile, examples, type ListOptions, listOptions } from "../command.ts";
import { leasesOf } from "../command-limiter.ts";
import { amountsText } from "../lease-access.ts";
import { onStore } from "../on-store.ts";
import { pageFrom, printList } from "../print.ts";
import { timeText } from "../show-entity.ts";

interface LeaseListOptions extends ListOptions {
  readonly entity?: string;
  readonly resource?: string;
}

export const leaseList: CommandFile<LeaseListOptions> = {
  configure: (command) => {
    listOptions(command)
      .option("-e, --entity <id>", "only this entity")
      .option("-r, --resource <resource>", "only this resource")
      .addHelpText("after", examples("zae-limiter lease list", "zae-limiter lease list -e key-1 --json"))
      .addHelpText(
        "after",
        "\nLists the leases that services keep in the store. Leases of programs that use the library are in those programs.\n",
      );
  },
  run: (context, options) =>
    onStore(context, options, async (limiter) => {
      const leases = await leasesOf(limiter);
      const { entity, resource } = options;
      const filter = {
        ...(entity === undefined ? {} : { entityId: entity }),
        ...(resource === undefined ? {} : { resource }),
      };
      return printList(context, options, {
        page: (request) => pageFrom(leases.list({ ...filter, ...request })),
        columns: [
          { title: "LEASE", text: ({ leaseId }) => leaseId ?? "" },
          { title: "ENTITY", text: ({ entityId }) => entityId },
          { title: "RESOURCE", text: (lease) => lease.resource },
          { title: "HOLDS", text: ({ consumed }) => amountsText(consumed), flexible: true },
          { title: "ENDS", text: ({ expiresAtMs }) => (expiresAtMs === null ? "" : timeText(expiresAtMs)) },
        ],
        empty: "No lease is open.",
      });
    }),
};
