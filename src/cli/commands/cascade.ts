import { type PolicyMember, setPolicyCommand, showPolicyCommand } from "../policy-commands.ts";

const CASCADE: PolicyMember<boolean | "inherit"> = {
  name: "cascade",
  argument: ["<on|off|inherit>", "whether parents are charged"],
  valueByWord: { on: true, off: false, inherit: "inherit" },
  examples: {
    set: ["zae-limiter cascade set off -e key-1 -r gpt-4", "zae-limiter cascade set inherit -e key-1 -r gpt-4"],
    show: "zae-limiter cascade show -e key-1 -r gpt-4",
  },
  set: (limiter, ...given) => limiter.setCascade(...given),
};

export const cascadeSet = setPolicyCommand(CASCADE);
export const cascadeShow = showPolicyCommand(CASCADE);
