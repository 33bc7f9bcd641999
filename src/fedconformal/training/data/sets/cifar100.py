"""CIFAR-100's class names, and the twenty superclasses that are the paper's sites."""

from __future__ import annotations

from fedconformal.training.data.sets.source import Groups

_NAMES = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
    man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
    pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
    skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
    tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CLASSES = tuple(_NAMES.split())

_SUPERCLASSES = """
    4 30 55 72 95, 1 32 67 73 91, 54 62 70 82 92, 9 10 16 28 61, 0 51 53 57 83, 22 39 40 86 87, 5 20 25 84 94,
    6 7 14 18 24, 3 42 43 88 97, 12 17 37 68 76, 23 33 49 60 71, 15 19 21 31 38, 34 63 64 66 75, 26 45 77 79 99,
    2 11 35 46 98, 27 29 44 78 93, 36 50 65 74 80, 47 52 56 59 96, 8 13 48 58 90, 41 69 81 85 89
"""
GROUPS: Groups = tuple(tuple(map(int, group.split())) for group in _SUPERCLASSES.split(","))
