import { tellNestStories } from "./nest-stories.ts";

tellNestStories("12");
