PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE never(id INTEGER PRIMARY KEY CHECK (0)) STRICT;
CREATE TABLE epochs(
  id INTEGER PRIMARY KEY,
  from_version INTEGER NOT NULL CHECK (from_version >= 0),
  reason TEXT NOT NULL CHECK (reason <> ''),
  t_ns INTEGER NOT NULL,
  opening INTEGER REFERENCES never(id) DEFERRABLE INITIALLY DEFERRED
) STRICT;
INSERT INTO epochs VALUES(1,0,'start',1795819597105150467,NULL);
INSERT INTO epochs VALUES(2,2,'resume',1795819612125815309,NULL);
CREATE TABLE groups(
  id INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL UNIQUE CHECK (seq >= 0),
  task TEXT NOT NULL,
  exemplars TEXT NOT NULL,
  prompt_hash TEXT NOT NULL,
  template_hash TEXT NOT NULL,
  epoch INTEGER NOT NULL REFERENCES epochs(id)
) STRICT;
INSERT INTO "groups" VALUES(1,0,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a','[]','9331692544b8ca86abd4c8f2e6d24ce6','d22697d4739a29cfae2a2b5d5348b899',1);
INSERT INTO "groups" VALUES(2,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f','[]','2fef5b1caf48c496ef2550a85677e4d7','d22697d4739a29cfae2a2b5d5348b899',1);
INSERT INTO "groups" VALUES(3,2,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','[1,2]','1e124c86e24a8783c2184c199b4c5ef3','d22697d4739a29cfae2a2b5d5348b899',1);
INSERT INTO "groups" VALUES(4,3,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7','[]','7379c1e64c8ab62fe198641e2ca64e4b','d22697d4739a29cfae2a2b5d5348b899',1);
INSERT INTO "groups" VALUES(5,4,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f','[3,4]','edf20a410cba1ff938a038fc51f968c5','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(6,5,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7','[5,6]','5a34a5fb5f708b87db489e528767a0f3','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(7,6,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','[1,2]','1e124c86e24a8783c2184c199b4c5ef3','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(8,7,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a','[7,8]','cabe62895f765450db6b5146253e6922','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(9,8,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f','[3,4]','edf20a410cba1ff938a038fc51f968c5','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(10,9,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','[1,2]','1e124c86e24a8783c2184c199b4c5ef3','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(11,10,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7','[]','7379c1e64c8ab62fe198641e2ca64e4b','d22697d4739a29cfae2a2b5d5348b899',2);
INSERT INTO "groups" VALUES(12,11,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a','[7,8]','cabe62895f765450db6b5146253e6922','d22697d4739a29cfae2a2b5d5348b899',2);
CREATE TABLE samples(
  id INTEGER PRIMARY KEY,
  grp INTEGER NOT NULL REFERENCES groups(id),
  k INTEGER NOT NULL CHECK (k >= 0),
  state TEXT NOT NULL,
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  v_min INTEGER,
  v_max INTEGER,
  segments TEXT,
  tokens_hash TEXT,
  source_hash TEXT,
  verdict_id INTEGER REFERENCES verdicts(id),
  reward REAL,
  step INTEGER,
  drop_reason TEXT,
  t_ns INTEGER NOT NULL,
  CHECK (v_min <= v_max),
  CONSTRAINT issued_has_no_result CHECK (state <> 'issued' OR
    coalesce(v_min, v_max, segments, tokens_hash, source_hash, verdict_id, reward, step) IS NULL),
  CONSTRAINT generated_has_tokens CHECK (state = 'issued' OR state = 'dropped' OR
    (v_min IS NOT NULL AND v_max IS NOT NULL AND segments IS NOT NULL AND tokens_hash IS NOT NULL)),
  CONSTRAINT evaluated_has_a_verdict CHECK (verdict_id IS NOT NULL OR
    state = 'issued' OR state = 'generated' OR state = 'dropped'),
  CONSTRAINT admitted_has_a_reward CHECK (reward IS NOT NULL OR
    NOT (state = 'admitted' OR state = 'consumed' OR state = 'trained')),
  CONSTRAINT consumed_has_a_step
    CHECK ((state = 'consumed' OR state = 'trained') = (step IS NOT NULL)),
  CONSTRAINT dropped_has_a_reason CHECK ((state = 'dropped') = (coalesce(drop_reason, '') <> '')),
  CONSTRAINT age_is_not_negative CHECK (step IS NULL OR v_max < step)
) STRICT;
INSERT INTO samples VALUES(1,1,0,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','7db282e16c5ce7e1daf0c9c38d287930',NULL,1,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(2,1,1,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','7e6f7130a0da9a0467a9e234ed94d803',NULL,2,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(3,1,2,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','5f86e4fff85ec4388cc7833843b1ff05',NULL,3,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(4,1,3,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','474ce775ae7797abf04596695e418d69',NULL,4,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(5,2,0,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','6fa2606f1f477788a9f07f99b6ed6eec',NULL,5,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(6,2,1,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','397dc6c423a3889712adc594201a9c7a',NULL,6,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(7,2,2,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','b504f4d1be3e2df692f10fccaac34be1',NULL,7,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(8,2,3,'trained',1,0,0,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"]]','c1dcacd809ff1c76a2cd9e2b8a0f63a3',NULL,8,0.0,1,NULL,1795819602760067850);
INSERT INTO samples VALUES(9,3,0,'trained',1,1,1,'[[0,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','f2d40eb6d8ca2f0e4feb42bfad224e55',NULL,14,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(10,3,1,'trained',1,1,1,'[[0,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','b61d0e22449ec86ad70bd8a7669b68bd',NULL,13,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(11,3,2,'trained',1,1,1,'[[0,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','f6b4b71c1e44f0166ab80c586c0ad062',NULL,15,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(12,3,3,'trained',1,1,1,'[[0,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','b054193e0945e6750e41bd42465e8cfa','c251373c84022309e2c695c1ba35615e',16,0.85999999999999998667,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(13,4,0,'trained',1,0,1,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"],[1,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','838c84f6ef49de7ec11fb92022dc6a40',NULL,12,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(14,4,1,'trained',1,0,1,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"],[2,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','8ace67857756ff79b133759888361e00',NULL,9,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(15,4,2,'trained',1,0,1,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"],[2,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','0b43dd226386536f77a5387bb674345b',NULL,10,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(16,4,3,'trained',1,0,1,'[[0,0,"c8ac96171ede4f52e5eab3a07dd18791"],[2,1,"c8ac96171ede4f52e5eab3a07dd18791"]]','2c9252ce4a0c080edc5bd9bffdf04bdc',NULL,11,0.0,2,NULL,1795819605083672985);
INSERT INTO samples VALUES(17,5,0,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','7a587d3b22b9091aac7771d407c7a3b2',NULL,17,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(18,5,1,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','45c10c7ee66358bce613a4d1a44acaa8',NULL,18,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(19,5,2,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','9fe0fa6ef5ceccc009a681278ffbb5c4',NULL,19,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(20,5,3,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','e394230fe78a6b10d6ce19ca292d9255',NULL,20,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(21,6,0,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','61e135988ff28c183edbcab46ca2efd5',NULL,21,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(22,6,1,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','d16bdffc0308d7795a341ad0d92d59c2',NULL,22,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(23,6,2,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','7a3ab1b8d1b4dbfbfb8996dc2ec063c0',NULL,23,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(24,6,3,'trained',2,2,2,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"]]','f1f0b8dc73b2d7890c87d9cfa9e8333d',NULL,24,0.0,3,NULL,1795819614673824092);
INSERT INTO samples VALUES(25,7,0,'evaluated',2,2,3,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"],[36,3,"908a8af3c4ff51898d2e997bd4679eaa"]]','cedd5fd6c7d13dc0c247365009fcdad8',NULL,25,NULL,NULL,NULL,1795819614899805045);
INSERT INTO samples VALUES(26,7,1,'generated',2,2,3,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"],[36,3,"908a8af3c4ff51898d2e997bd4679eaa"]]','00519c982bf6626c2d138ad1f4942936',NULL,NULL,NULL,NULL,NULL,1795819614805066941);
INSERT INTO samples VALUES(27,7,2,'evaluated',2,2,3,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"],[36,3,"908a8af3c4ff51898d2e997bd4679eaa"]]','d9db47f40fc6af54a944da88fce275ec',NULL,26,NULL,NULL,NULL,1795819614899853918);
INSERT INTO samples VALUES(28,7,3,'evaluated',2,2,3,'[[0,2,"8c43b1074ddddd66adaaa2038008e6f8"],[36,3,"908a8af3c4ff51898d2e997bd4679eaa"]]','426b6d67bdc7807b3d6d5a4b2cead3df',NULL,27,NULL,NULL,NULL,1795819614899873668);
INSERT INTO samples VALUES(29,8,0,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399704905);
INSERT INTO samples VALUES(30,8,1,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399729882);
INSERT INTO samples VALUES(31,8,2,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399737083);
INSERT INTO samples VALUES(32,8,3,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399740788);
INSERT INTO samples VALUES(33,9,0,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399957972);
INSERT INTO samples VALUES(34,9,1,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399964442);
INSERT INTO samples VALUES(35,9,2,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399968658);
INSERT INTO samples VALUES(36,9,3,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614399971873);
INSERT INTO samples VALUES(37,10,0,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614400069449);
INSERT INTO samples VALUES(38,10,1,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614400073074);
INSERT INTO samples VALUES(39,10,2,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614400076910);
INSERT INTO samples VALUES(40,10,3,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614400079874);
INSERT INTO samples VALUES(41,11,0,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614459811990);
INSERT INTO samples VALUES(42,11,1,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614459838961);
INSERT INTO samples VALUES(43,11,2,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614459848595);
INSERT INTO samples VALUES(44,11,3,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614459852751);
INSERT INTO samples VALUES(45,12,0,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614460032900);
INSERT INTO samples VALUES(46,12,1,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614460038969);
INSERT INTO samples VALUES(47,12,2,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614460043436);
INSERT INTO samples VALUES(48,12,3,'issued',2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1795819614460046721);
CREATE TABLE pairs(old TEXT NOT NULL, new TEXT NOT NULL, kind TEXT NOT NULL,
  PRIMARY KEY (old, new)) STRICT, WITHOUT ROWID;
INSERT INTO pairs VALUES('admitted','consumed','forward');
INSERT INTO pairs VALUES('admitted','dropped','forward');
INSERT INTO pairs VALUES('admitted','issued','backward');
INSERT INTO pairs VALUES('consumed','admitted','backward');
INSERT INTO pairs VALUES('consumed','issued','backward');
INSERT INTO pairs VALUES('consumed','trained','forward');
INSERT INTO pairs VALUES('evaluated','admitted','forward');
INSERT INTO pairs VALUES('evaluated','dropped','forward');
INSERT INTO pairs VALUES('evaluated','issued','backward');
INSERT INTO pairs VALUES('generated','dropped','forward');
INSERT INTO pairs VALUES('generated','evaluated','forward');
INSERT INTO pairs VALUES('generated','issued','backward');
INSERT INTO pairs VALUES('issued','dropped','forward');
INSERT INTO pairs VALUES('issued','generated','forward');
INSERT INTO pairs VALUES('trained','admitted','backward');
INSERT INTO pairs VALUES('trained','issued','backward');
CREATE TABLE events(
  seq INTEGER PRIMARY KEY,
  sample INTEGER NOT NULL,
  old TEXT,
  new TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  t_ns INTEGER NOT NULL
) STRICT;
INSERT INTO events VALUES(1,1,NULL,'issued',1,1795819600343596023);
INSERT INTO events VALUES(2,2,NULL,'issued',1,1795819600343626759);
INSERT INTO events VALUES(3,3,NULL,'issued',1,1795819600343636984);
INSERT INTO events VALUES(4,4,NULL,'issued',1,1795819600343641801);
INSERT INTO events VALUES(5,5,NULL,'issued',1,1795819600355542881);
INSERT INTO events VALUES(6,6,NULL,'issued',1,1795819600355565614);
INSERT INTO events VALUES(7,7,NULL,'issued',1,1795819600355574267);
INSERT INTO events VALUES(8,8,NULL,'issued',1,1795819600355578424);
INSERT INTO events VALUES(9,2,'issued','generated',1,1795819602203567927);
INSERT INTO events VALUES(10,3,'issued','generated',1,1795819602204289814);
INSERT INTO events VALUES(11,4,'issued','generated',1,1795819602204862048);
INSERT INTO events VALUES(12,6,'issued','generated',1,1795819602213801878);
INSERT INTO events VALUES(13,7,'issued','generated',1,1795819602236151940);
INSERT INTO events VALUES(14,8,'issued','generated',1,1795819602243664441);
INSERT INTO events VALUES(15,5,'issued','generated',1,1795819602267776543);
INSERT INTO events VALUES(16,1,'issued','generated',1,1795819602311577334);
INSERT INTO events VALUES(17,9,NULL,'issued',1,1795819602351590975);
INSERT INTO events VALUES(18,10,NULL,'issued',1,1795819602351613288);
INSERT INTO events VALUES(19,11,NULL,'issued',1,1795819602351623043);
INSERT INTO events VALUES(20,12,NULL,'issued',1,1795819602351627399);
INSERT INTO events VALUES(21,13,NULL,'issued',1,1795819602375570359);
INSERT INTO events VALUES(22,14,NULL,'issued',1,1795819602375592462);
INSERT INTO events VALUES(23,15,NULL,'issued',1,1795819602375601315);
INSERT INTO events VALUES(24,16,NULL,'issued',1,1795819602375605371);
INSERT INTO events VALUES(25,1,'generated','evaluated',1,1795819602383081287);
INSERT INTO events VALUES(26,2,'generated','evaluated',1,1795819602383126435);
INSERT INTO events VALUES(27,3,'generated','evaluated',1,1795819602383144582);
INSERT INTO events VALUES(28,4,'generated','evaluated',1,1795819602383158563);
INSERT INTO events VALUES(29,1,'evaluated','admitted',1,1795819602383174236);
INSERT INTO events VALUES(30,2,'evaluated','admitted',1,1795819602383182759);
INSERT INTO events VALUES(31,3,'evaluated','admitted',1,1795819602383187796);
INSERT INTO events VALUES(32,4,'evaluated','admitted',1,1795819602383191271);
INSERT INTO events VALUES(33,5,'generated','evaluated',1,1795819602383204231);
INSERT INTO events VALUES(34,6,'generated','evaluated',1,1795819602383218051);
INSERT INTO events VALUES(35,7,'generated','evaluated',1,1795819602383229959);
INSERT INTO events VALUES(36,8,'generated','evaluated',1,1795819602383241586);
INSERT INTO events VALUES(37,5,'evaluated','admitted',1,1795819602383247165);
INSERT INTO events VALUES(38,6,'evaluated','admitted',1,1795819602383250880);
INSERT INTO events VALUES(39,7,'evaluated','admitted',1,1795819602383255147);
INSERT INTO events VALUES(40,8,'evaluated','admitted',1,1795819602383258271);
INSERT INTO events VALUES(41,1,'admitted','consumed',1,1795819602488789982);
INSERT INTO events VALUES(42,2,'admitted','consumed',1,1795819602488821990);
INSERT INTO events VALUES(43,3,'admitted','consumed',1,1795819602488831264);
INSERT INTO events VALUES(44,4,'admitted','consumed',1,1795819602488835240);
INSERT INTO events VALUES(45,5,'admitted','consumed',1,1795819602488838334);
INSERT INTO events VALUES(46,6,'admitted','consumed',1,1795819602488841279);
INSERT INTO events VALUES(47,7,'admitted','consumed',1,1795819602488844053);
INSERT INTO events VALUES(48,8,'admitted','consumed',1,1795819602488846877);
INSERT INTO events VALUES(49,1,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(50,2,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(51,3,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(52,4,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(53,5,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(54,6,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(55,7,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(56,8,'consumed','trained',1,1795819602760067850);
INSERT INTO events VALUES(57,14,'issued','generated',1,1795819603935681411);
INSERT INTO events VALUES(58,15,'issued','generated',1,1795819603936475266);
INSERT INTO events VALUES(59,16,'issued','generated',1,1795819603937139187);
INSERT INTO events VALUES(60,14,'generated','evaluated',1,1795819603937549048);
INSERT INTO events VALUES(61,15,'generated','evaluated',1,1795819603937583910);
INSERT INTO events VALUES(62,16,'generated','evaluated',1,1795819603937599914);
INSERT INTO events VALUES(63,13,'issued','generated',1,1795819603938698694);
INSERT INTO events VALUES(64,13,'generated','evaluated',1,1795819603939055526);
INSERT INTO events VALUES(65,13,'evaluated','admitted',1,1795819603939076077);
INSERT INTO events VALUES(66,14,'evaluated','admitted',1,1795819603939084390);
INSERT INTO events VALUES(67,15,'evaluated','admitted',1,1795819603939088726);
INSERT INTO events VALUES(68,16,'evaluated','admitted',1,1795819603939092191);
INSERT INTO events VALUES(69,12,'issued','generated',1,1795819603993386683);
INSERT INTO events VALUES(70,10,'issued','generated',1,1795819603998962714);
INSERT INTO events VALUES(71,10,'generated','evaluated',1,1795819603999623390);
INSERT INTO events VALUES(72,11,'issued','generated',1,1795819604005988378);
INSERT INTO events VALUES(73,9,'issued','generated',1,1795819604015995912);
INSERT INTO events VALUES(74,9,'generated','evaluated',1,1795819604019621542);
INSERT INTO events VALUES(75,11,'generated','evaluated',1,1795819604019674692);
INSERT INTO events VALUES(76,12,'generated','evaluated',1,1795819604158348519);
INSERT INTO events VALUES(77,9,'evaluated','admitted',1,1795819604159304836);
INSERT INTO events VALUES(78,10,'evaluated','admitted',1,1795819604159325277);
INSERT INTO events VALUES(79,11,'evaluated','admitted',1,1795819604159332698);
INSERT INTO events VALUES(80,12,'evaluated','admitted',1,1795819604159336584);
INSERT INTO events VALUES(81,13,'admitted','consumed',1,1795819604915828347);
INSERT INTO events VALUES(82,14,'admitted','consumed',1,1795819604915857891);
INSERT INTO events VALUES(83,15,'admitted','consumed',1,1795819604915865843);
INSERT INTO events VALUES(84,16,'admitted','consumed',1,1795819604915870119);
INSERT INTO events VALUES(85,9,'admitted','consumed',1,1795819604915873464);
INSERT INTO events VALUES(86,10,'admitted','consumed',1,1795819604915876929);
INSERT INTO events VALUES(87,11,'admitted','consumed',1,1795819604915880024);
INSERT INTO events VALUES(88,12,'admitted','consumed',1,1795819604915883139);
INSERT INTO events VALUES(89,9,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(90,10,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(91,11,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(92,12,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(93,13,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(94,14,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(95,15,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(96,16,'consumed','trained',1,1795819605083672985);
INSERT INTO events VALUES(97,17,NULL,'issued',2,1795819613139587812);
INSERT INTO events VALUES(98,18,NULL,'issued',2,1795819613139617266);
INSERT INTO events VALUES(99,19,NULL,'issued',2,1795819613139625678);
INSERT INTO events VALUES(100,20,NULL,'issued',2,1795819613139629935);
INSERT INTO events VALUES(101,21,NULL,'issued',2,1795819613151724653);
INSERT INTO events VALUES(102,22,NULL,'issued',2,1795819613151747607);
INSERT INTO events VALUES(103,23,NULL,'issued',2,1795819613151777051);
INSERT INTO events VALUES(104,24,NULL,'issued',2,1795819613151781197);
INSERT INTO events VALUES(105,18,'issued','generated',2,1795819614323915497);
INSERT INTO events VALUES(106,19,'issued','generated',2,1795819614324653949);
INSERT INTO events VALUES(107,20,'issued','generated',2,1795819614325309918);
INSERT INTO events VALUES(108,17,'issued','generated',2,1795819614325890835);
INSERT INTO events VALUES(109,25,NULL,'issued',2,1795819614326133838);
INSERT INTO events VALUES(110,26,NULL,'issued',2,1795819614326145014);
INSERT INTO events VALUES(111,27,NULL,'issued',2,1795819614326150442);
INSERT INTO events VALUES(112,28,NULL,'issued',2,1795819614326154178);
INSERT INTO events VALUES(113,17,'generated','evaluated',2,1795819614327422310);
INSERT INTO events VALUES(114,18,'generated','evaluated',2,1795819614327471744);
INSERT INTO events VALUES(115,19,'generated','evaluated',2,1795819614327535399);
INSERT INTO events VALUES(116,20,'generated','evaluated',2,1795819614327550722);
INSERT INTO events VALUES(117,17,'evaluated','admitted',2,1795819614327565264);
INSERT INTO events VALUES(118,18,'evaluated','admitted',2,1795819614327576120);
INSERT INTO events VALUES(119,19,'evaluated','admitted',2,1795819614327580516);
INSERT INTO events VALUES(120,20,'evaluated','admitted',2,1795819614327583741);
INSERT INTO events VALUES(121,22,'issued','generated',2,1795819614343226795);
INSERT INTO events VALUES(122,23,'issued','generated',2,1795819614343823175);
INSERT INTO events VALUES(123,24,'issued','generated',2,1795819614351635282);
INSERT INTO events VALUES(124,21,'issued','generated',2,1795819614379137393);
INSERT INTO events VALUES(125,29,NULL,'issued',2,1795819614399704905);
INSERT INTO events VALUES(126,30,NULL,'issued',2,1795819614399729882);
INSERT INTO events VALUES(127,31,NULL,'issued',2,1795819614399737083);
INSERT INTO events VALUES(128,32,NULL,'issued',2,1795819614399740788);
INSERT INTO events VALUES(129,33,NULL,'issued',2,1795819614399957972);
INSERT INTO events VALUES(130,34,NULL,'issued',2,1795819614399964442);
INSERT INTO events VALUES(131,35,NULL,'issued',2,1795819614399968658);
INSERT INTO events VALUES(132,36,NULL,'issued',2,1795819614399971873);
INSERT INTO events VALUES(133,37,NULL,'issued',2,1795819614400069449);
INSERT INTO events VALUES(134,38,NULL,'issued',2,1795819614400073074);
INSERT INTO events VALUES(135,39,NULL,'issued',2,1795819614400076910);
INSERT INTO events VALUES(136,40,NULL,'issued',2,1795819614400079874);
INSERT INTO events VALUES(137,21,'generated','evaluated',2,1795819614411799273);
INSERT INTO events VALUES(138,22,'generated','evaluated',2,1795819614411852102);
INSERT INTO events VALUES(139,23,'generated','evaluated',2,1795819614411870739);
INSERT INTO events VALUES(140,24,'generated','evaluated',2,1795819614411885672);
INSERT INTO events VALUES(141,21,'evaluated','admitted',2,1795819614411896838);
INSERT INTO events VALUES(142,22,'evaluated','admitted',2,1795819614411904029);
INSERT INTO events VALUES(143,23,'evaluated','admitted',2,1795819614411908255);
INSERT INTO events VALUES(144,24,'evaluated','admitted',2,1795819614411911490);
INSERT INTO events VALUES(145,17,'admitted','consumed',2,1795819614438078358);
INSERT INTO events VALUES(146,18,'admitted','consumed',2,1795819614438117016);
INSERT INTO events VALUES(147,19,'admitted','consumed',2,1795819614438125118);
INSERT INTO events VALUES(148,20,'admitted','consumed',2,1795819614438128934);
INSERT INTO events VALUES(149,21,'admitted','consumed',2,1795819614438132028);
INSERT INTO events VALUES(150,22,'admitted','consumed',2,1795819614438134963);
INSERT INTO events VALUES(151,23,'admitted','consumed',2,1795819614438137787);
INSERT INTO events VALUES(152,24,'admitted','consumed',2,1795819614438140621);
INSERT INTO events VALUES(153,41,NULL,'issued',2,1795819614459811990);
INSERT INTO events VALUES(154,42,NULL,'issued',2,1795819614459838961);
INSERT INTO events VALUES(155,43,NULL,'issued',2,1795819614459848595);
INSERT INTO events VALUES(156,44,NULL,'issued',2,1795819614459852751);
INSERT INTO events VALUES(157,45,NULL,'issued',2,1795819614460032900);
INSERT INTO events VALUES(158,46,NULL,'issued',2,1795819614460038969);
INSERT INTO events VALUES(159,47,NULL,'issued',2,1795819614460043436);
INSERT INTO events VALUES(160,48,NULL,'issued',2,1795819614460046721);
INSERT INTO events VALUES(161,17,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(162,18,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(163,19,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(164,20,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(165,21,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(166,22,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(167,23,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(168,24,'consumed','trained',2,1795819614673824092);
INSERT INTO events VALUES(169,26,'issued','generated',2,1795819614805066941);
INSERT INTO events VALUES(170,27,'issued','generated',2,1795819614859953476);
INSERT INTO events VALUES(171,28,'issued','generated',2,1795819614879783287);
INSERT INTO events VALUES(172,25,'issued','generated',2,1795819614895936272);
INSERT INTO events VALUES(173,25,'generated','evaluated',2,1795819614899805045);
INSERT INTO events VALUES(174,27,'generated','evaluated',2,1795819614899853918);
INSERT INTO events VALUES(175,28,'generated','evaluated',2,1795819614899873668);
CREATE TABLE verdicts(
  id INTEGER PRIMARY KEY,
  sample INTEGER NOT NULL REFERENCES samples(id),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  task TEXT NOT NULL,
  source_hash TEXT,
  protocol TEXT NOT NULL,
  device_class TEXT NOT NULL,
  env TEXT NOT NULL,
  speedup_e2 INTEGER,
  confirmed INTEGER NOT NULL CHECK (confirmed IN (0, 1)),
  json TEXT NOT NULL,
  UNIQUE (sample, epoch, attempt)
) STRICT;
INSERT INTO verdicts VALUES(1,1,1,1,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a","verdict":"malformed"}');
INSERT INTO verdicts VALUES(2,2,1,1,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a","verdict":"malformed"}');
INSERT INTO verdicts VALUES(3,3,1,1,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a","verdict":"malformed"}');
INSERT INTO verdicts VALUES(4,4,1,1,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a","verdict":"malformed"}');
INSERT INTO verdicts VALUES(5,5,1,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(6,6,1,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(7,7,1,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(8,8,1,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(9,14,1,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(10,15,1,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(11,16,1,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(12,13,1,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(13,10,1,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
INSERT INTO verdicts VALUES(14,9,1,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
INSERT INTO verdicts VALUES(15,11,1,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
INSERT INTO verdicts VALUES(16,12,1,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','c251373c84022309e2c695c1ba35615e','cost_model/1','cpp-avx512','0d4ced79126de7b08872424f6017664d',86,0,'{"cached":false,"checks":[{"detail":"","name":"static screen","pass":true},{"detail":"","name":"hidden: n=7 m=33, large/uniform","pass":true},{"detail":"","name":"hidden: n=7 m=33, sparse/positive","pass":true},{"detail":"","name":"hidden: n=7 m=33, constant/sorted","pass":true},{"detail":"","name":"hidden: n=7 m=33, sorted/sparse","pass":true},{"detail":"","name":"hidden: n=7 m=33, large/uniform, one element changed","pass":true},{"detail":"","name":"same inputs again","pass":true},{"detail":"","name":"hidden: n=13 m=250, large/uniform","pass":true},{"detail":"","name":"hidden: n=13 m=250, sparse/positive","pass":true},{"detail":"","name":"hidden: n=13 m=250, constant/sorted","pass":true},{"detail":"","name":"hidden: n=13 m=250, sorted/sparse","pass":true},{"detail":"","name":"hidden: n=13 m=250, large/uniform, one element changed","pass":true},{"detail":"","name":"same inputs again","pass":true},{"detail":"","name":"timed sizes: n=180 m=256, timed","pass":true},{"detail":"","name":"timed sizes: n=180 m=256, constant/sorted","pass":true},{"detail":"","name":"timed sizes: n=180 m=256, sorted/sparse","pass":true},{"detail":"","name":"timed sizes: n=180 m=256, large/uniform","pass":true},{"detail":"","name":"timed sizes: n=180 m=256, sparse/positive","pass":true},{"detail":"","name":"same inputs again","pass":true}],"compiler":{"argv":["/usr/bin/x86_64-linux-gnu-g++-12","-std=c++20","-O3","-march=native","-fno-math-errno","-shared","-fPIC","-fmax-errors=10","-fdiagnostics-color=never","-include","/root/.cache/quern/prelude/652765217df212249095edd7494c7b26/prelude.hpp","-x","c++","-","-o","kernel.so","-Wl,-z,defs","-Wl,-z,now","-Wl,--require-defined=kernel"],"ms":123,"text":""},"device_class":"cpp-avx512","env":"0d4ced79126de7b08872424f6017664d","protocol":"cost_model/1","quern_verdict":1,"sandbox":["userns","mountns","pidns","netns","ipcns","utsns","read_only_root","landlock","seccomp","foreign_uid","rlimits","cgroup1"],"source":"c251373c84022309e2c695c1ba35615e","speedup_e2":86,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"ok"}');
INSERT INTO verdicts VALUES(17,17,2,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(18,18,2,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(19,19,2,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(20,20,2,1,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f","verdict":"malformed"}');
INSERT INTO verdicts VALUES(21,21,2,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(22,22,2,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(23,23,2,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(24,24,2,1,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7","verdict":"malformed"}');
INSERT INTO verdicts VALUES(25,25,2,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
INSERT INTO verdicts VALUES(26,27,2,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
INSERT INTO verdicts VALUES(27,28,2,1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554',NULL,'cost_model/1','cpp-avx512','',NULL,0,'{"cached":false,"detail":"a fence of backticks is never closed","device_class":"cpp-avx512","kind":"unterminated_code_block","protocol":"cost_model/1","quern_verdict":1,"task":"elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554","verdict":"malformed"}');
CREATE TABLE variants(
  id INTEGER PRIMARY KEY,
  task TEXT NOT NULL,
  source_hash TEXT NOT NULL,
  device_class TEXT NOT NULL,
  protocol TEXT NOT NULL,
  verdict_id INTEGER REFERENCES verdicts(id),
  speedup_e2 INTEGER CHECK (speedup_e2 >= 0),
  version INTEGER NOT NULL CHECK (version >= 0),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  parents TEXT NOT NULL,
  sample INTEGER NOT NULL,
  text_hash TEXT NOT NULL,
  UNIQUE (task, source_hash, device_class, protocol)
) STRICT;
INSERT INTO variants VALUES(1,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','650c01a9d268ec862a02456d30298c0b','cpp-avx512','cost_model/1',NULL,54,0,1,'[]',0,'95f3346a8262872839556dfba8596c1b');
INSERT INTO variants VALUES(2,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','03405c9f5d338bef0a1af3204c040035','cpp-avx512','cost_model/1',NULL,76,0,1,'[]',0,'4f675cc438dc47cdb98a0cccc582b188');
INSERT INTO variants VALUES(3,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f','5d814a1df8c84070536e4cabe4c9836b','cpp-avx512','cost_model/1',NULL,126,0,1,'[]',0,'794a6420f99673daba66f87685106bed');
INSERT INTO variants VALUES(4,'elementwise_8f49c43e2a06@90807a13c2021f8b302b35d385bc930f','ad27019747822f35bee30795de211948','cpp-avx512','cost_model/1',NULL,125,0,1,'[]',0,'4456769f3b8e5b51f844c9ce8267cc4a');
INSERT INTO variants VALUES(5,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7','b03bc772aace8189093f8fcd6f89d5a5','cpp-avx512','cost_model/1',NULL,45,1,1,'[]',0,'a89a898892ddb7210cc8495fda8676a0');
INSERT INTO variants VALUES(6,'centre_28ad26965bf4@cacc263d093af768fc1944108d155ad7','bc933e58d3c32153e2b72ab05d09442d','cpp-avx512','cost_model/1',NULL,55,1,1,'[]',0,'a0a92963f34ac11f0dec03697212ac3f');
INSERT INTO variants VALUES(7,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a','fbf473af7baa869bc928ed22e85645ea','cpp-avx512','cost_model/1',NULL,66,1,1,'[]',0,'5bbbbc132828a9ad1580ca96d29bf19a');
INSERT INTO variants VALUES(8,'l1_48f562975292@c1f4ef6d8c4b3277335424a8e05f307a','030f9136f1beafa6b88bbcad45fdb7ad','cpp-avx512','cost_model/1',NULL,86,1,1,'[]',0,'1fd510e4781069089c5a8a9c39c99558');
INSERT INTO variants VALUES(9,'elementwise_fc0d94eeafe1@ceb2d29a32c3f2cd2e9f4c683725e554','c251373c84022309e2c695c1ba35615e','cpp-avx512','cost_model/1',16,86,1,1,'[1,2]',12,'f736b861f1da167101a4363171995363');
CREATE TABLE checkpoints(
  version INTEGER NOT NULL CHECK (version >= 0),
  epoch INTEGER NOT NULL REFERENCES epochs(id),
  path TEXT NOT NULL,
  hash TEXT NOT NULL,
  t_ns INTEGER NOT NULL,
  PRIMARY KEY (version, epoch)
) STRICT;
INSERT INTO checkpoints VALUES(1,1,'checkpoints/v00000001','b52c65cf2a70411618560fae82880dc3',1795819602760048861);
INSERT INTO checkpoints VALUES(2,1,'checkpoints/v00000002','553af620396efc55f642c979189dd07c',1795819605083664212);
INSERT INTO checkpoints VALUES(3,2,'checkpoints/v00000003','d842a7fee4c2adcf290c69f8d588a5d1',1795819614673812074);
CREATE UNIQUE INDEX samples_grp ON samples(grp, k);
CREATE INDEX samples_state ON samples(state, step);
CREATE INDEX events_born ON events(seq) WHERE old IS NULL;
CREATE INDEX variants_best ON variants(task, device_class, protocol, speedup_e2 DESC, sample);
CREATE TRIGGER samples_are_born_so BEFORE INSERT ON samples
WHEN NEW.state <> 'issued'
BEGIN SELECT RAISE(ABORT, 'a sample is born issued'); END;
CREATE TRIGGER samples_are_born AFTER INSERT ON samples
BEGIN
  INSERT INTO events(sample, old, new, epoch, t_ns)
    VALUES (NEW.id, NULL, NEW.state, (SELECT max(id) FROM epochs), NEW.t_ns);
END;
CREATE TRIGGER samples_step AFTER UPDATE OF state ON samples
BEGIN
  SELECT RAISE(ABORT, 'this pair of states is not legal now') WHERE NOT EXISTS
    (SELECT 1 FROM pairs WHERE old = OLD.state AND new = NEW.state AND (kind = 'forward' OR
      (SELECT opening FROM epochs ORDER BY id DESC LIMIT 1) IS NOT NULL));
  SELECT RAISE(ABORT, 'trained without a checkpoint that holds the step')
    WHERE NEW.state = 'trained' AND NOT EXISTS (SELECT 1 FROM checkpoints
      WHERE version >= NEW.step AND epoch = (SELECT max(id) FROM epochs));
  INSERT INTO events(sample, old, new, epoch, t_ns)
    VALUES (NEW.id, OLD.state, NEW.state, (SELECT max(id) FROM epochs), NEW.t_ns);
END;
CREATE TRIGGER samples_keep_identity BEFORE UPDATE OF id, grp, k ON samples
BEGIN SELECT RAISE(ABORT, 'a sample keeps its id, group and place'); END;
CREATE TRIGGER epochs_follow BEFORE INSERT ON epochs
WHEN NEW.id <> (SELECT coalesce(max(id), 0) + 1 FROM epochs)
BEGIN SELECT RAISE(ABORT, 'epochs follow each other'); END;
CREATE TRIGGER epochs_close BEFORE UPDATE ON epochs
WHEN NEW.opening IS NOT NULL OR NEW.id <> OLD.id OR NEW.from_version <> OLD.from_version
BEGIN SELECT RAISE(ABORT, 'an epoch can only be closed'); END;
CREATE TRIGGER samples_stay BEFORE DELETE ON samples
BEGIN SELECT RAISE(ABORT, 'samples are never deleted'); END;
CREATE TRIGGER groups_stay BEFORE DELETE ON groups
BEGIN SELECT RAISE(ABORT, 'groups are never deleted'); END;
CREATE TRIGGER groups_keep BEFORE UPDATE ON groups
BEGIN SELECT RAISE(ABORT, 'groups are never changed'); END;
CREATE TRIGGER epochs_stay BEFORE DELETE ON epochs
BEGIN SELECT RAISE(ABORT, 'epochs are never deleted'); END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
CREATE TRIGGER events_keep BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER verdicts_stay BEFORE DELETE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never deleted'); END;
CREATE TRIGGER verdicts_keep BEFORE UPDATE ON verdicts
BEGIN SELECT RAISE(ABORT, 'verdicts are never changed'); END;
CREATE TRIGGER checkpoints_stay BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE(ABORT, 'checkpoints are never deleted'); END;
PRAGMA application_id = 1366651502;
PRAGMA user_version = 1;
COMMIT;
