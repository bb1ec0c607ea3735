import type { Check } from "../check.ts";
import { checksOf } from "../checks.ts";
import { paintOf } from "../color.ts";
import { type CommandFile, examples, type GlobalOptions } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { printValue } from "../print.ts";
import { serviceUrl } from "../service-option.ts";
import { chosenStore } from "../store-option.ts";

export const doctor: CommandFile<GlobalOptions> = {
  configure: (command) => {
    command
      .addHelpText("after", examples("zae-limiter doctor", "zae-limiter doctor --json"))
      .addHelpText(
        "after",
        "\nPermissions are tested by calls that change nothing. A mark of ! is advice: the store works as it is.\n\nExit codes: 1 a check failed.\n",
      );
  },
  run: async (context, options) => {
    const checks = await checksOf(context, options);
    const ok = checks.every((check) => check.ok === true);
    const paint = paintOf(context, options);
    const mark = (check: Check) =>
      check.ok === null ? paint("dim", "?") : check.ok ? wellMark(check) : paint("red", "✘");
    const wellMark = ({ remedy }: Check) => (remedy === undefined ? paint("green", "✔") : paint("yellow", "!"));
    await printValue(context, options, { ok, checks }, () => {
      const width = Math.max(...checks.map(({ name }) => name.length));
      const lines = checks.map((check) => {
        const remedy = check.remedy === undefined ? "" : `\n    ${check.remedy}`;
        return `${mark(check)} ${check.name.padEnd(width)}  ${check.detail}${remedy}\n`;
      });
      return `${serviceUrl(options, context) === undefined ? chosenStore(options, context).name : "The service"}\n${lines.join("")}`;
    });
    return ok ? EXIT.done : EXIT.refused;
  },
};
