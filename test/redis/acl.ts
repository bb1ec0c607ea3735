/** The rules of the guide. */
export const NARROW_ACL =
  "-@all +eval +evalsha +get +mget +mset +del +zadd +zrem +zscore +zlexcount +zrangebylex +zrevrangebylex +time +wait +info +ping +hello +auth +client|setname";
