"""After how many images is the quality reached with which uniform training ends?"""
